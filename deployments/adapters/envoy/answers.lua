-- Answers with the contract's fallback, in the words of the caller who asks.
-- All that differs between endpoints comes as the route's metadata; nothing is generated code.
local MOST_ROWS = 65536

local function problem(handle, status, code, title, detail)
  handle:respond(
    { [":status"] = status, ["content-type"] = "application/problem+json" },
    string.format(
      '{"type":"about:blank","title":"%s","status":%s,"detail":"%s","code":"%s",'
      .. '"hint":"Send a smaller batch.","error":"%s"}',
      title, status, detail, code, detail))
end

local function tensor_json(tensor, rows)
  local shape = tensor["row_shape"]
  local data = tensor["row"]
  if tensor["batched"] then
    shape = shape == "" and tostring(rows) or (tostring(rows) .. "," .. shape)
    data = string.rep(data .. ",", rows - 1) .. data
    if rows == 0 then data = "" end
  end
  return string.format('{"name":%s,"datatype":"%s","shape":[%s],"data":[%s]}',
    tensor["name"], tensor["datatype"], shape, data)
end

local function v2_answer(handle, answer, headers)
  local body = handle:body()
  local text = body and body:getBytes(0, body:length()) or ""
  local rows = tonumber(text:match('"shape"%s*:%s*%[%s*(%d+)') or "1")
  if rows > MOST_ROWS then
    return problem(handle, "422", "batch_too_large", "Batch too large",
      "The fallback answers at most " .. MOST_ROWS .. " rows.")
  end
  local parts = {}
  for _, tensor in ipairs(answer["tensors"] or {}) do
    parts[#parts + 1] = tensor_json(tensor, rows)
  end
  local id = text:match('"id"%s*:%s*"([%w%-_%.:]*)"')
  handle:respond(headers, string.format(
    '{%s"model_name":%s,"parameters":{"fallback":true,"reason":%s},"outputs":[%s]}',
    id and ('"id":"' .. id .. '",') or "", answer["model"], answer["reason"],
    table.concat(parts, ",")))
end

function envoy_on_request(handle)
  local answer = handle:metadata():get("fallback")
  if answer == nil then return end
  local request = handle:headers()
  local path = request:get(":path"):match("^[^?]*")
  local headers = {
    [":status"] = "200",
    ["content-type"] = "application/json",
    ["x-covenant-fallback"] = answer["reason_word"],
    ["x-model-version"] = "fallback",
  }
  local plain = (request:get("accept") or ""):find("format=plain", 1, true)
  if request:get(":method") == "GET" then
    handle:respond(headers, path:match("/ready$") and "" or answer["metadata"])
  elseif path:match("^/v2/") and not plain then
    v2_answer(handle, answer, headers)
  else
    handle:respond(headers, answer["plain"])
  end
end
