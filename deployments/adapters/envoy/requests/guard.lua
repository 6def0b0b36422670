-- Where an endpoint's policy turns validation off, and for the data of a body that is too large to
-- be read number by number: refuses only what would end a Triton's process, and with it everybody's
-- models. Triton reserves memory for the shape that a tensor claims, before it looks at the data
-- (measured: std::bad_alloc), and reads JSON recursively (a deeply nested one overflows its stack).
local function is_too_deep(text)
  local depth, position = 0, 1
  while true do
    local found = text:find('["%[%]{}]', position)
    if not found then return false end
    local mark = text:byte(found)
    if mark == QUOTE then
      local at = found + 1
      while true do
        local stop = text:find('["\\]', at)
        if not stop then return false end
        found = stop
        if text:byte(stop) == QUOTE then break end
        at = stop + 2
      end
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

local function dangers_of(text, bytes)
  local report = new_report()
  if is_too_deep(text) then
    add(report, "", "The JSON is nested more than " .. DEEPEST .. " levels deep.")
  elseif claims_more_than(text, bytes) then
    add(report, "/inputs", "A tensor's shape claims more elements than the body holds.")
  end
  return report
end
