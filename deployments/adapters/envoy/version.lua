-- In every cluster of a model's version: writes the path that Triton knows, which the filter before
-- it has taken from the host that was chosen, and tells a caller's fault from a model's.

-- Triton answers 500 to a body that it cannot read, as if the model were at fault.
local CALLERS_FAULTS = {
  "failed to parse the request JSON", "Unable to parse '", "Unable to set 'classification'",
}

-- A Triton that has just started has nothing loaded yet: its fault, not that of who asked.
local NOT_LOADED = "Request for unknown model"

local function is_callers_fault(words)
  for _, start in ipairs(CALLERS_FAULTS) do
    if words:sub(1, #start) == start then return true end
  end
  return false
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local path = headers:get(":path"):match("^[^?]*")
  local tail = path:match("^/v2/models/[^/]+(/%a+)$")
    or path:match("^/v2/models/[^/]+/versions/%d+(/%a+)$") or ""
  headers:replace(":path", headers:get("x-covenant-target") .. tail)
  headers:remove("x-covenant-target")
  headers:remove("x-envoy-retry-on")
  headers:remove("x-envoy-max-retries")
end

local function answer(handle, body, status, title, code, detail, hint)
  local problem = string.format(
    '{"type":"about:blank","title":"%s","status":%s,"detail":"%s","code":"%s","hint":"%s",'
    .. '"error":"%s"}', title, status, detail, code, hint, detail)
  -- Asked for anew: waiting for the body has made the earlier object void.
  local headers = handle:headers()
  headers:replace(":status", status)
  headers:replace("content-type", "application/problem+json")
  headers:replace("content-length", tostring(body:setBytes(problem)))
end

function envoy_on_response(handle)
  local status = handle:headers():get(":status")
  if status ~= "500" and status ~= "404" then return end
  local body = handle:body()
  if body == nil or body:length() > 8192 then return end
  -- The words are taken over as they stand in Triton's JSON, so they are escaped already.
  local words = body:getBytes(0, body:length()):match('^%s*{%s*"error"%s*:%s*"(.*)"%s*}%s*$')
  if words == nil then return end
  if status == "500" and is_callers_fault(words) then
    answer(handle, body, "422", "Invalid request", "invalid_input", words,
      "Send a v2 inference request that fits the inputs of the model.")
  elseif status == "404" and words:sub(1, #NOT_LOADED) == NOT_LOADED then
    answer(handle, body, "503", "Model unavailable",
      handle:metadata():get("unavailable_code") or "model_unavailable",
      "No instance of the model could answer.", "Try again shortly.")
    handle:headers():replace("retry-after", "1")
  end
end
