"""Covenant's own icon set: 16 × 16, drawn with a 1.5 px stroke in the colour of the text.

A value is the inside of an ``<svg viewBox="0 0 16 16">``. State shapes (``state-*``) differ in
outline, so that a state is told apart without its colour.
"""

from __future__ import annotations

from typing import Final

ICONS: Final[dict[str, str]] = {
    # Navigation.
    "home": '<path d="M2.5 7 8 2.5 13.5 7v6a.5.5 0 0 1-.5.5H3a.5.5 0 0 1-.5-.5z"/>'
    '<path d="M6.25 13.5V9h3.5v4.5"/>',
    "models": '<path d="m8 1.8 5.5 3.1v6.2L8 14.2l-5.5-3.1V4.9z"/>'
    '<path d="M2.6 5 8 8l5.4-3M8 8v6"/>',
    "endpoints": '<circle cx="3.5" cy="8" r="1.75"/><circle cx="12.5" cy="3.75" r="1.75"/>'
    '<circle cx="12.5" cy="12.25" r="1.75"/><path d="M5.1 7.3 10.9 4.5M5.1 8.7l5.8 2.8"/>',
    "rollouts": '<path d="M2 13.5h3v-3h3v-3h3v-3h3"/><path d="m11.5 2.5 2.5 2-2.5 2"/>',
    "jobs": '<rect x="2" y="2.5" width="12" height="4" rx="1"/>'
    '<rect x="2" y="9.5" width="12" height="4" rx="1"/><path d="M4.5 4.5h.01M4.5 11.5h.01"/>',
    "incidents": '<path d="M8 2.25 14.25 13.5H1.75z"/><path d="M8 6.25v3.5M8 11.5v.25"/>',
    "alerts": '<path d="M4 6.75a4 4 0 0 1 8 0c0 3.5 1.25 4.5 1.25 4.5H2.75S4 10.25 4 6.75z"/>'
    '<path d="M6.75 13.5c.5.7 2 .7 2.5 0M1.75 4.5a6 6 0 0 1 1.5-2.5M14.25 4.5A6 6 0 0 0 12.75 2"/>',
    "nodes": '<rect x="4" y="4" width="8" height="8" rx="1.25"/><path d="M6.5 6.5h3v3h-3z"/>'
    '<path d="M6 4V1.75M10 4V1.75M6 14.25V12M10 14.25V12M4 6H1.75M4 10H1.75M14.25 6H12'
    'M14.25 10H12"/>',
    "sla": '<path d="M8 1.75 13.25 3.5v4.25c0 3-2.1 5.3-5.25 6.5-3.15-1.2-5.25-3.5-5.25-6.5V3.5z"/>'
    '<path d="m5.75 7.9 1.6 1.6 2.9-3.1"/>',
    "audit": '<path d="M3.5 1.75h6.25L12.5 4.5v9.75h-9z"/><path d="M9.5 1.75V4.9h3M6 8h4M6 11h4"/>',
    "settings": '<path d="M2 4.5h6.5M12 4.5h2M2 11.5h2M7.5 11.5H14"/><circle cx="10.25" cy="4.5" '
    'r="1.75"/><circle cx="5.75" cy="11.5" r="1.75"/>',
    # Actions.
    "search": '<circle cx="7" cy="7" r="4.5"/><path d="m10.5 10.5 3.25 3.25"/>',
    "menu": '<path d="M2 4.25h12M2 8h12M2 11.75h12"/>',
    "close": '<path d="m3.5 3.5 9 9m0-9-9 9"/>',
    "copy": '<rect x="5.5" y="5.5" width="8" height="8" rx="1.25"/>'
    '<path d="M3.5 10.5h-.25c-.7 0-1.25-.55-1.25-1.25v-6C2 2.55 2.55 2 3.25 2h6c.7 0 1.25.55 1.25 '
    '1.25v.25"/>',
    "check": '<path d="m3 8.5 3.25 3.25L13 4.75"/>',
    "plus": '<path d="M8 3v10M3 8h10"/>',
    "upload": '<path d="M8 10.5V2.75M4.75 5.75 8 2.5l3.25 3.25M2.5 10.5v2.75h11V10.5"/>',
    "download": '<path d="M8 2.5v7.75M4.75 7.25 8 10.5l3.25-3.25M2.5 10.5v2.75h11V10.5"/>',
    "rollback": '<path d="M2.5 6.5h7a4 4 0 0 1 0 8H6"/><path d="M5.5 3.25 2.25 6.5 5.5 9.75"/>',
    "refresh": '<path d="M13.25 6.5A5.5 5.5 0 0 0 3 5.75M2.75 9.5A5.5 5.5 0 0 0 13 10.25"/>'
    '<path d="M3 2.5v3.25h3.25M13 13.5v-3.25H9.75"/>',
    "pause": '<path d="M5.25 3v10M10.75 3v10"/>',
    "play": '<path d="M4.5 2.75v10.5L13 8z"/>',
    "pen": '<path d="m10.75 2.5 2.75 2.75-8 8-3.25.5.5-3.25z"/>',
    "key": '<circle cx="5" cy="11" r="2.75"/><path d="m7 9 6-6M10.75 5.25l2 2"/>',
    "lock": '<rect x="3" y="7" width="10" height="6.75" rx="1.25"/>'
    '<path d="M5.25 7V4.75a2.75 2.75 0 0 1 5.5 0V7"/>',
    "link": '<path d="M6.5 9.5a2.75 2.75 0 0 0 3.9 0l2.3-2.3a2.75 2.75 0 0 0-3.9-3.9l-.8.8"/>'
    '<path d="M9.5 6.5a2.75 2.75 0 0 0-3.9 0L3.3 8.8a2.75 2.75 0 0 0 3.9 3.9l.8-.8"/>',
    "table": '<rect x="2" y="2.75" width="12" height="10.5" rx="1.25"/>'
    '<path d="M2 6.25h12M2 9.75h12M6.5 6.25v7"/>',
    "chart": '<path d="M2.25 2.25v11.5h11.5"/><path d="m4.75 10.25 2.75-3.5 2.25 2 3.5-4.5"/>',
    "filter": '<path d="M2 3.5h12M4.5 8h7M6.75 12.5h2.5"/>',
    "chevron-right": '<path d="m6 3.5 4.5 4.5L6 12.5"/>',
    "chevron-left": '<path d="M10 3.5 5.5 8l4.5 4.5"/>',
    "chevron-down": '<path d="M3.5 6 8 10.5 12.5 6"/>',
    "arrow-right": '<path d="M2.5 8h11M9.5 4l4 4-4 4"/>',
    "arrow-up": '<path d="M8 13.5v-11M4 6.5l4-4 4 4"/>',
    "arrow-down": '<path d="M8 2.5v11M4 9.5l4 4 4-4"/>',
    "external": '<path d="M9.5 2.5h4v4M13.25 2.75 7.5 8.5M11.5 9.5v4h-9v-9h4"/>',
    "more": '<path d="M3.5 8h.01M8 8h.01M12.5 8h.01" stroke-width="2"/>',
    # Things and people.
    "person": '<circle cx="8" cy="5.25" r="2.75"/><path d="M2.75 14c.5-2.9 2.6-4.5 5.25-4.5s4.75 '
    '1.6 5.25 4.5"/>',
    "sign-out": '<path d="M9.5 2.5h-6v11h6M6.5 8h7.25M11 5.25 13.75 8 11 10.75"/>',
    "sun": '<circle cx="8" cy="8" r="2.75"/>'
    '<path d="M8 1.5v1.25M8 13.25v1.25M1.5 8h1.25M13.25 8h1.25'
    'M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9"/>',
    "moon": '<path d="M13.5 9.5A5.75 5.75 0 0 1 6.5 2.5a5.75 5.75 0 1 0 7 7z"/>',
    "screen": '<rect x="2" y="2.75" width="12" height="8.5" rx="1.25"/><path d="M5.5 13.75h5"/>',
    "file": '<path d="M3.5 1.75h6.25L12.5 4.5v9.75h-9z"/><path d="M9.5 1.75V4.9h3"/>',
    "contract": '<path d="M3.5 1.75h9v12.5h-9z"/><path d="M6 5h4M6 7.5h4"/>'
    '<path d="M6 11.5c1-1.3 1.6-1.3 1.9 0 .4 1 1 .9 2.1-.5"/>',
    "bell": '<path d="M4 6.75a4 4 0 0 1 8 0c0 3.5 1.25 4.5 1.25 4.5H2.75S4 10.25 4 6.75z"/>'
    '<path d="M6.75 13.5c.5.7 2 .7 2.5 0"/>',
    "branch": '<circle cx="4.25" cy="3.5" r="1.5"/><circle cx="4.25" cy="12.5" r="1.5"/>'
    '<circle cx="11.75" cy="5" r="1.5"/><path d="M4.25 5v6M11.75 6.5c0 2.75-4 1.75-7 3.5"/>',
    "clock": '<circle cx="8" cy="8" r="5.75"/><path d="M8 4.75V8l2.25 1.5"/>',
    "info": '<circle cx="8" cy="8" r="5.75"/><path d="M8 7.25v3.5M8 5.1v.01"/>',
    # State shapes.
    "state-waiting": '<circle cx="8" cy="8" r="5.5" stroke-dasharray="2.1 2.2"/>',
    "state-active": '<circle cx="8" cy="8" r="5.5" stroke-opacity=".35"/>'
    '<path class="spin" d="M8 2.5A5.5 5.5 0 0 1 13.5 8"/>',
    "state-good": '<circle cx="8" cy="8" r="6.25" fill="currentColor" stroke="none"/>'
    '<path class="knock" d="m5.25 8.2 1.9 1.9 3.6-3.9"/>',
    "state-warn": '<path d="M8 1.9 14.6 13.4H1.4z" fill="currentColor" stroke-linejoin="round"/>'
    '<path class="knock" d="M8 6.2v3.1M8 11.3v.01"/>',
    "state-bad": '<path d="M5.4 1.75h5.2l3.65 3.65v5.2l-3.65 3.65H5.4L1.75 10.6V5.4z" '
    'fill="currentColor" stroke="none"/><path class="knock" d="m5.9 5.9 4.2 4.2m0-4.2-4.2 4.2"/>',
    "state-stopped": '<rect x="2.5" y="2.5" width="11" height="11" rx="2"/><path d="M5.5 8h5"/>',
    "state-paused": '<circle cx="8" cy="8" r="5.75"/><path d="M6.4 5.75v4.5M9.6 5.75v4.5"/>',
    "state-open": '<circle cx="8" cy="8" r="5.5"/>',
    "state-back": '<circle cx="8" cy="8" r="6.25" fill="currentColor" stroke="none"/>'
    '<path class="knock" d="M10.9 9.9c0-2-1.2-2.9-2.9-2.9H5.4M7 5.2 5.2 7 7 8.8"/>',
    "state-dot": '<circle cx="8" cy="8" r="3" fill="currentColor" stroke="none"/>',
}
