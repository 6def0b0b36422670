-- In every cluster of a model's version: writes the path that Triton knows, says who answered, and
-- tells a caller's fault from a model's. $PATH and $VERSION are filled in from checked names.

-- Triton answers 500 to a body that it cannot read, as if the model were at fault.
local CALLERS_FAULTS = {
  "failed to parse the request JSON", "Unable to parse '", "Unable to set 'classification'",
}

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
  headers:replace(":path", "$PATH" .. tail)
end

function envoy_on_response(handle)
  handle:headers():replace("x-model-version", "$VERSION")
  if handle:headers():get(":status") ~= "500" then return end
  local body = handle:body()
  if body == nil or body:length() > 8192 then return end
  -- The words are taken over as they stand in Triton's JSON, so they are escaped already.
  local words = body:getBytes(0, body:length()):match('^%s*{%s*"error"%s*:%s*"(.*)"%s*}%s*$')
  if words == nil or not is_callers_fault(words) then return end
  local problem = string.format(
    '{"type":"about:blank","title":"Invalid request","status":422,"detail":"%s",'
    .. '"code":"invalid_input","hint":"Send a v2 inference request that fits the inputs of the model.",'
    .. '"error":"%s"}', words, words)
  -- Asked for anew: waiting for the body has made the earlier object void.
  local headers = handle:headers()
  headers:replace(":status", "422")
  headers:replace("content-type", "application/problem+json")
  headers:replace("content-length", tostring(body:setBytes(problem)))
end
