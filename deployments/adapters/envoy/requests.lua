-- Before any model: refuses what would end a Triton's process, and with it everybody's models.
-- Triton reserves memory for the shape that a tensor claims, before it looks at the data (measured:
-- std::bad_alloc), and reads JSON recursively (a deeply nested one overflows its stack).
local DEEPEST = 64
local QUOTE, OPEN_LIST, OPEN_OBJECT = 34, 91, 123

local function refuse(handle, status, code, title, detail, hint)
  handle:respond(
    { [":status"] = tostring(status), ["content-type"] = "application/problem+json" },
    string.format(
      '{"type":"about:blank","title":"%s","status":%d,"detail":"%s","code":"%s","hint":"%s",'
      .. '"error":"%s"}',
      title, status, detail, code, hint, detail))
end

local function end_of_string(text, start)
  local position = start + 1
  while true do
    local found = text:find('["\\]', position)
    if not found then return #text end
    if text:byte(found) == QUOTE then return found end
    position = found + 2
  end
end

local function is_too_deep(text)
  local depth, position = 0, 1
  while true do
    local found = text:find('["%[%]{}]', position)
    if not found then return false end
    local mark = text:byte(found)
    if mark == QUOTE then
      found = end_of_string(text, found)
    elseif mark == OPEN_LIST or mark == OPEN_OBJECT then
      depth = depth + 1
      if depth > DEEPEST then return true end
    else
      depth = depth - 1
    end
    position = found + 1
  end
end

local function unescaped(digits) return string.char(tonumber(digits, 16)) end

-- Whatever its type and form, each element takes at least one byte of the body.
local function claims_more_than(text, bytes)
  if text:find("\\u", 1, true) then text = text:gsub("\\u00(%x%x)", unescaped) end
  for shape in text:gmatch('"shape"%s*:%s*%[([^%]]*)%]') do
    local elements = 1
    for size in shape:gmatch("%d+") do elements = elements * tonumber(size) end
    if elements > bytes then return true end
  end
  return false
end

function envoy_on_request(handle)
  local headers = handle:headers()
  if headers:get(":method") ~= "POST" then return end
  local encoding = headers:get("content-encoding")
  if encoding and encoding ~= "identity" then
    return refuse(handle, 415, "encoding_not_taken", "Unsupported encoding",
      "The body is compressed.", "Send it uncompressed.")
  end
  local described = tonumber(headers:get("inference-header-content-length") or "")
  local body = handle:body()
  if body == nil then return end
  local bytes = body:length()
  if described == nil or described < 0 or described > bytes then described = bytes end
  local text = body:getBytes(0, described)
  if is_too_deep(text) then
    return refuse(handle, 422, "invalid_input", "Invalid request",
      "The JSON is nested more than " .. DEEPEST .. " levels deep.",
      "Send a v2 inference request that fits the inputs of the model.")
  end
  if claims_more_than(text, bytes) then
    return refuse(handle, 422, "invalid_input", "Invalid request",
      "A tensor's shape claims more elements than the body holds.",
      "Send the data of every input in the body, in the number that its shape says.")
  end
end
