"""Grafana's JSON of a dashboard, to be imported or provisioned (schema version 39, Grafana 10 up).

https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

from __future__ import annotations

from typing import Any, Final

from deployments.rules.statistics.dashboards import DASHBOARDS, Dashboard, Panel

JSON = dict[str, Any]

SCHEMA: Final = 39
COLUMNS: Final = 24
HEIGHT: Final = 8
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
GOOD, BAD = "#1a7f4b", "#c62828"


def files() -> dict[str, JSON]:
    """Each dashboard by the name of its file."""
    return {f"{one.uid}.json": document(one) for one in DASHBOARDS}


def document(dashboard: Dashboard) -> JSON:
    """A dashboard as Grafana imports it; its data source is chosen there."""
    panels: list[JSON] = []
    y = 0
    for row in dashboard.rows:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": row.title, "collapsed": False}
            | {"gridPos": place, "panels": []}
        )
        x, y = 0, y + 1
        for panel in row.panels:
            place = {"h": HEIGHT, "w": panel.width, "x": x, "y": y}
            panels.append(_panel(panel, len(panels) + 1, place))
            x += panel.width
        y += HEIGHT
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["covenant"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_source(), *(_variable(*one) for one in dashboard.variables)]},
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "Covenant",
                "tags": ["covenant"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "panels": panels,
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> JSON:
    custom: JSON = {"lineWidth": 1, "fillOpacity": 0, "showPoints": "never", "spanNulls": False}
    steps: list[JSON] = [{"color": GOOD, "value": None}]
    if panel.limit is not None:
        custom["thresholdsStyle"] = {"mode": "dashed"}
        # Of what is left little is bad, of everything else much.
        low = panel.kind == "gauge"
        steps = [
            {"color": BAD if low else GOOD, "value": None},
            {"color": GOOD if low else BAD, "value": panel.limit},
        ]
    defaults: JSON = {
        "unit": panel.unit,
        "min": 0 if panel.kind == "timeseries" else None,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.kind == "timeseries":
        defaults["custom"] = custom
    options: JSON = {
        "timeseries": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }.get(panel.kind, {"reduceOptions": {"calcs": ["lastNotNull"]}})
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": DATASOURCE,
                "expr": query,
                "legendFormat": words,
                "editorMode": "code",
                "range": True,
            }
            for index, (query, words) in enumerate(panel.queries)
        ],
    }


def _source() -> JSON:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }


def _variable(name: str, metric: str) -> JSON:
    """A choice among the values of a label; those chosen before narrow the model's."""
    of = f'{metric}{{environment=~"$environment"}}' if name == "model" else metric
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": f"label_values({of}, {name})", "refId": name},
        "definition": f"label_values({of}, {name})",
        "refresh": 2,
        "sort": 1,
        "multi": name == "node",
        "includeAll": name == "node",
        "allValue": ".*" if name == "node" else None,
        "current": {"text": "All", "value": "$__all"} if name == "node" else {},
    }
