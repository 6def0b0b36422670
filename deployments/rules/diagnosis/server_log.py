"""What Triton's own log says of a model that it did not load.

Lines are glog's: `E1201 12:26:06.280763 20024 model_lifecycle.cc:642] "failed to load …"`. They
bear no year. Libraries below Triton write lines of their own between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from deployments.rules.diagnosis.findings import Finding

_LINE: Final = re.compile(
    r"(?P<level>[IWEF])(?P<month>\d\d)(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):"
    r"(?P<second>\d\d)\.(?P<fraction>\d{1,6}) +\d+ [^ \]]+:\d+\] "
)
_OTHERS: Final = re.compile(r"loading: |failed to load |successfully |Poll failed|Started ")
CONTEXT: Final = 12
"""Lines before an error that are told with it."""

_ONE_WORD: Final = "expects (?P<expected>\\d+) bytes.*?data provided from (?P<name>.+?) ?only has"

_PATTERNS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (code, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for code, pattern in (
        (
            "ir_version_too_new",
            r"Unsupported model IR version: (?P<found>\d+), "
            r"max supported IR version: (?P<most>\d+)",
        ),
        (
            "opset_too_new",
            r"Opset (?P<found>\d+) is under development.*?till opset (?P<most>\d+)",
        ),
        ("operator_unknown", r"(?P<operator>[\w.]*:\w+)\(-?\d+\) is not a registered function/op"),
        ("operator_unknown", r"No Op registered for (?P<operator>\w+) with domain_version"),
        ("operator_unknown", r"No opset import for domain '(?P<operator>[^']*)'"),
        (
            "operator_not_implemented",
            r"Could not find an implementation for (?P<operator>[\w.:]+\(\d+\)|[\w.:]+)",
        ),
        (
            "external_data_missing",
            r"External data path does not exist: \\?\"(?P<path>[^\"\\]+)",
        ),
        (
            "external_data_missing",
            r"GetExtDataFromTensorProto.*?(?P<path>[^\s\"]+) (?:fail|is not found|cannot)",
        ),
        (
            "external_data_outside",
            r"External data path (?:validation failed|.*?) .*?escapes .*?(?P<path>/[^\s\"]+)",
        ),
        ("onnx_damaged", r"Protobuf parsing failed|No graph was found in the protobuf"),
        ("file_missing", r"(?P<name>[\w.\-]+) is missing in version folder"),
        ("file_missing", r"(?:unable to find|failed to stat file) '?(?P<name>[^\s']*\.onnx)"),
        ("backend_missing", r"unable to find backend library for backend '(?P<name>[^']+)'"),
        ("backend_missing", r"unable to find '(?P<name>[^']+\.so)'(?: or '[^']+')? for model"),
        (
            "driver_too_old",
            r"CUDA driver version is insufficient|forward compatibility was attempted on non"
            r"|unsupported display driver / cuda driver combination",
        ),
        ("gpu_missing", r"has kind KIND_GPU but no GPUs are available"),
        (
            "gpu_unknown",
            r"instance group .*? specifies (?:invalid or unsupported )?gpu (?:id )?(?P<gpu>\d+)",
        ),
        ("operator_library_missing", r"custom operator library (?P<path>\S+) is missing"),
        (
            "operator_library_missing",
            r"Failed to load library (?P<path>\S+) with error: .*?cannot open shared object",
        ),
        (
            "interface_differs",
            r"configuration's (?:inputs|outputs) .*? are not those of the ONNX file",
        ),
        (
            "interface_differs",
            r"configuration expects \d+ (?:in|out)puts, model provides \d+"
            r"|unexpected (?:inference )?(?:in|out)put '(?P<tensor>[^']+)'"
            r"|unexpected datatype TYPE_\w+ for inference (?:in|out)put '(?P<typed>[^']+)'"
            r"|the model expects \d+ dimensions .*? but the model configuration specifies",
        ),
        ("warmup_differs", _ONE_WORD),
        (
            "warmup_missing",
            r"failed to open text file for read (?P<path>\S*/warmup/\S+): No such file",
        ),
        ("file_missing", r"failed to open (?:text )?file for read (?P<name>\S+): No such file"),
        ("version_folder_missing", r"at least one version must be available under the version"),
        (
            "config_name_differs",
            r"unexpected directory name '(?P<folder>[^']+)' for model '(?P<name>[^']+)'",
        ),
        (
            "config_unknown_field",
            r"ModelConfig: (?P<line>\d+):(?P<column>\d+): "
            r".*?has no field named \"(?P<field>[^\"]+)\"",
        ),
        ("config_unreadable", r"Error parsing text-format \S+ (?P<line>\d+):(?P<column>\d+): "),
        ("config_unreadable", r"failed to read text proto from"),
        (
            "platform_unknown",
            r"unexpected 'platform' and 'backend' pair, got:(?P<platform>[^\s,]*)",
        ),
        ("platform_unknown", r"unexpected platform type '?(?P<platform>[^\s']*)'? for"),
        (
            "preferred_too_large",
            r"preferred size must be <= max batch size",
        ),
        (
            "out_of_memory",
            r"CUDA out of memory|out of memory|std::bad_alloc|Failed to allocate memory"
            r"|unable to allocate \S+ memory|CUDNN_STATUS_ALLOC_FAILED",
        ),
        ("not_readable", r"(?P<path>/\S+?)[:\"' ]+.{0,40}Permission denied|Permission denied"),
        ("disk_full", r"No space left on device"),
        (
            "library_does_not_load",
            r"undefined symbol: (?P<symbol>\S+)|version `(?P<glibc>GLIBC\w*_[\d.]+)' not found"
            r"|(?P<library>\S+\.so[.\d]*): cannot open shared object file",
        ),
        (
            "plan_of_other_release",
            r"The engine plan file is (?:not compatible|generated on an incompatible)"
            r"|serialization error.*?version|Version tag does not match",
        ),
        ("start_timed_out", r"Timed out occurred while waiting for the stub process"),
        ("config_refused", r"Poll failed for model directory '[^']+': (?P<reason>[^\n]+)"),
    )
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line with its level (I, W, E, F; "" where a library wrote it) and moment, where it has."""

    text: str
    level: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The lines around the last error about a model; empty without one."""

    lines: tuple[str, ...]
    error: str
    at: datetime | None


def read(text: str, *, now: datetime) -> list[LogLine]:
    """The lines of a log; a date without a year is the last such day that is not in the future."""
    return [_line(one, now) for one in text.splitlines()]


def about(
    lines: Sequence[LogLine], triton_model: str, number: int, *, since: datetime | None = None
) -> Excerpt:
    """The last error that names the model (and no other version), with what was before it.

    `since` leaves out what is older: an error of last week is not this one's.
    """
    loaded = f"successfully loaded '{triton_model}'"
    other = re.compile(rf"'{re.escape(triton_model)}' version (?!{number}\b)\d+")
    named = re.compile(rf"'{re.escape(triton_model)}'|loading: {re.escape(triton_model)}:")
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if loaded in line.text:
            break  # it loaded after whatever was wrong before
        if line.level not in ("E", "F") or not named.search(line.text):
            continue
        if other.search(line.text):
            continue
        if since is not None and line.at is not None and line.at < since:
            break
        first = index
        # One failure writes several lines; those before it that are not about another model.
        while (
            first > 0
            and index - first < CONTEXT
            and not _begins(lines[first], named)
            and not _of_another(lines[first - 1], named)
        ):
            first -= 1
        told = tuple(one.text for one in lines[first : index + 1])
        return Excerpt(told, line.text, line.at)
    return Excerpt((), "", None)


def recognised(text: str) -> Finding | None:
    """The finding that an error's words stand for, None where they are not known."""
    for code, pattern in _PATTERNS:
        if found := pattern.search(text):
            data = {name: value for name, value in found.groupdict().items() if value}
            return Finding(code, "bad", data, text)
    return None


def explained(words: str, excerpt: Excerpt) -> Finding | None:
    """The finding of an error: of Triton's answer first, else of the log around it.

    `words` is what the loading call answered, "" where nothing did. Not known words are evidence
    all the same (`log_error`). None where nothing was said at all.
    """
    told = "\n".join(excerpt.lines)
    for text in (words, told):
        # The answer often says only where to look ("failed to poll from model repository").
        if text and (found := recognised(text)) is not None:
            return Finding(found.code, "bad", found.data, told or plain(text))
    if words or told:
        return Finding("log_error", "bad", {"said": _short(words or excerpt.error)}, told or words)
    return None


def plain(text: str) -> str:
    """Triton quotes newlines in its log; a person wants to read them."""
    return text.replace("\\n", "\n").strip()


def _short(text: str) -> str:
    words = " ".join(_LINE.sub("", text).strip().strip('"').split())
    return words[:300]


def _begins(line: LogLine, named: re.Pattern[str]) -> bool:
    return line.level == "I" and "loading: " in line.text and bool(named.search(line.text))


def _of_another(line: LogLine, named: re.Pattern[str]) -> bool:
    return bool(_OTHERS.search(line.text)) and not named.search(line.text)


def _line(text: str, now: datetime) -> LogLine:
    found = _LINE.match(text)
    if found is None:
        return LogLine(plain(text), "", None)
    try:
        at = datetime(
            now.year,
            int(found["month"]),
            int(found["day"]),
            int(found["hour"]),
            int(found["minute"]),
            int(found["second"]),
            int(found["fraction"].ljust(6, "0")),
            tzinfo=now.tzinfo,
        )
        if at > now + timedelta(days=1):
            at = at.replace(year=now.year - 1)
    except ValueError:
        return LogLine(plain(text), found["level"], None)
    return LogLine(plain(text), found["level"], at)
