-- Where an endpoint's policy turns validation off: refuses only what would end a Triton's process,
-- and with it everybody's models. Triton reserves memory for the shape that a tensor claims, before
-- it looks at the data (measured: std::bad_alloc), and reads JSON recursively (a deeply nested one
-- overflows its stack). What is no JSON is Triton's to refuse.
local function end_of_text(p, i, length)
  i = i + 1
  while i < length and p[i] ~= QUOTE do
    i = i + (p[i] == BACKSLASH and 2 or 1)
  end
  return i + 1
end

local function is_too_deep(p, length)
  local depth, i = 0, 0
  while i < length do
    local c = p[i]
    if c == QUOTE then
      i = end_of_text(p, i, length)
    else
      if c == OPEN_LIST or c == OPEN_OBJECT then
        depth = depth + 1
        if depth > DEEPEST then return true end
      elseif c == CLOSE_LIST or c == CLOSE_OBJECT then
        depth = depth - 1
      end
      i = i + 1
    end
    if i < length then
      i = i + tonumber(ffi.C.strcspn(ffi.cast("const char*", p + i), '[]{}"'))
    end
  end
  return false
end

local function unescaped(digits) return string.char(tonumber(digits, 16)) end

-- Whatever its type and form, each element takes at least one byte of the body.
local function claims_more_than(text, bytes)
  if text:find("\\u", 1, true) then text = text:gsub("\\u00(%x%x)", unescaped) end
  local at = text:find('"shape"', 1, true)
  while at do
    local shape = text:match('^"shape"%s*:%s*%[([^%]]*)%]', at)
    local elements = 1
    for size in (shape or ""):gmatch("%d+") do elements = elements * tonumber(size) end
    if elements > bytes then return true end
    at = text:find('"shape"', at + 1, true)
  end
  return false
end

local function dangers_of(text, bytes)
  local report = new_report()
  if is_too_deep(ffi.cast("const uint8_t*", text), #text) then
    add(report, "", "The JSON is nested more than " .. DEEPEST .. " levels deep.")
  elseif claims_more_than(text, bytes) then
    add(report, "/inputs", "A tensor's shape claims more elements than the body holds.")
  end
  return report
end
