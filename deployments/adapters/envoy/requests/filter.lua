-- The filter itself. A request that is refused here has met no version, and counts against none.
local HINT = "Send a v2 inference request that fits the inputs of the model."

local function json_text(text)
  local escaped = text:gsub('[%c"\\\127-\255]', function(c)
    if c == '"' or c == "\\" then return "\\" .. c end
    return c:byte() < 32 and string.format("\\u%04x", c:byte()) or c
  end)
  return '"' .. escaped .. '"'
end

local function errors_json(report)
  local parts = {}
  for k = 1, report.n do
    parts[k] = '{"pointer":' .. json_text(report[k].pointer) .. ',"detail":'
      .. json_text(report[k].detail) .. "}"
  end
  return table.concat(parts, ",")
end

local function respond(handle, status, code, title, detail, hint, errors)
  local id = handle:headers():get("x-request-id")
  handle:respond(
    { [":status"] = tostring(status), ["content-type"] = "application/problem+json" },
    '{"type":"about:blank","title":"' .. title .. '","status":' .. status .. ',"detail":'
      .. json_text(detail) .. ',"code":"' .. code .. '","hint":"' .. hint .. '","error":'
      .. json_text(detail) .. (errors and ',"errors":[' .. errors .. "]" or "")
      .. (id and ',"request_id":' .. json_text(id) or "") .. "}")
end

local function refuse(handle, code, report)
  local first = report[1]
  local detail = (first.pointer ~= "" and first.pointer .. ": " or "") .. first.detail
  if report.n > 1 then detail = detail .. " (" .. report.n .. " faults in all)" end
  handle:streamInfo():dynamicMetadata():set("covenant.requests", "refused",
    first.pointer == "" and "/" or first.pointer)
  respond(handle, 422, code, "Invalid request", detail, HINT, errors_json(report))
end

local function too_large(handle, most)
  respond(handle, 413, "body_too_large", "Body too large",
    "A request to this model has at most " .. number_text(most) .. " bytes.",
    "Send fewer rows at once.")
end

-- The length of the JSON before the binary part: all of it where the caller names none.
local function described_length(headers, bytes)
  local said = headers:get("inference-header-content-length")
  if not said then return bytes end
  local length = said:match("^%d+$") and tonumber(said)
  return length and length <= bytes and length or nil
end

function envoy_on_request(handle)
  local headers = handle:headers()
  if headers:get(":method") ~= "POST" then return end
  local facts = handle:metadata()
  local validation = facts:get("validation")
  if not validation then return end
  local code, most, lines = facts:get("code"), facts:get("most_bytes"), facts:get("inputs")
  local encoding = headers:get("content-encoding")
  if encoding and encoding ~= "identity" then
    return respond(handle, 415, "encoding_not_taken", "Unsupported encoding",
      "The body is compressed.", "Send it uncompressed.")
  end
  -- The whole body is taken before it is refused: who is answered while sending meets a reset
  -- connection instead of the answer.
  local body = handle:body()
  local bytes = body and body:length() or 0
  if bytes > most then return too_large(handle, most) end
  -- Asked for anew: waiting for the body has made the earlier object void.
  local described = described_length(handle:headers(), bytes)
  if not described then
    return refuse(handle, code, { n = 1, { pointer = "", detail =
      "Inference-Header-Content-Length is not the length of the JSON at the body's start." } })
  end
  local text = described > 0 and body:getBytes(0, described) or ""
  local report, ours
  if validation == "off" then
    report = dangers_of(text, bytes)
  elseif described == 0 and bytes > 0 then
    local raw = body:getBytes(0, bytes)
    report = faults_of_raw(ffi.cast("const uint8_t*", raw), bytes, lines and rules_of(lines) or nil)
  else
    local tail = described < bytes and body:getBytes(described, bytes - described) or ""
    report, ours = faults_of(text, tail, lines and rules_of(lines) or nil)
    if ours then handle:logErr("requests: " .. tostring(ours)) end
  end
  if report.n > 0 then refuse(handle, code, report) end
end
