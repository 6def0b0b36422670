"""How the API reads bodies: JSON of bounded size whose texts can be stored and shown again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.utils.json import strict_constant


class StrictJSONParser(JSONParser):
    """JSON by RFC 8259 in Unicode, of at most `DATA_UPLOAD_MAX_MEMORY_SIZE` bytes.

    Raises ParseError (400) for all else, also for what Python's reader lets pass or fails at in
    its own way: half of a surrogate pair, which no database and no answer can hold, deep nesting,
    whole numbers of thousands of digits, a name given twice, of which readers take one or the
    other (RFC 7493); RequestDataTooBig (413) for more bytes.
    """

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body: bytes = stream.read(most + 1)
        if len(body) > most:
            raise RequestDataTooBig
        encoding = (parser_context or {}).get("encoding", settings.DEFAULT_CHARSET)
        try:
            text = body.decode(encoding)
            value = json.loads(text, parse_constant=strict_constant, object_pairs_hook=_members)
            if "\\u" in text:
                json.dumps(value, ensure_ascii=False).encode()
        except RecursionError as error:
            raise ParseError("JSON parse error - it is nested too deeply.") from error
        except UnicodeEncodeError as error:
            raise ParseError("JSON parse error - a text has half of a surrogate pair.") from error
        except (ValueError, LookupError) as error:
            raise ParseError(f"JSON parse error - {error}") from error
        return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name “{twice[:60]}” is given twice")
    return members
