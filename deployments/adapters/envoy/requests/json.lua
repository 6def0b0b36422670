-- Reads JSON where it lies, byte by byte, without making a table of it: compiled by LuaJIT this
-- costs a few nanoseconds for each byte. A Lua string ends with a zero byte, which no JSON has
-- outside of it, so nothing ever reads past the end.
local ffi = require("ffi")

local DEEPEST = 64
local QUOTE, COMMA, COLON, BACKSLASH = 34, 44, 58, 92
local OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = 91, 93, 123, 125

-- Ends the reading: what is no JSON has one fault, the first.
local function broken(at, detail)
  error({ at = at, detail = detail }, 0)
end

local function is_digit(c) return c >= 48 and c <= 57 end

local function after_space(p, i)
  local c = p[i]
  while c == 32 or c == 10 or c == 13 or c == 9 do
    i = i + 1
    c = p[i]
  end
  return i
end

local function hex4(p, i)
  local value = 0
  for k = i, i + 3 do
    local c = p[k]
    if is_digit(c) then c = c - 48
    elseif c >= 97 and c <= 102 then c = c - 87
    elseif c >= 65 and c <= 70 then c = c - 55
    else broken(k, "\\u is not followed by four hexadecimal digits") end
    value = value * 16 + c
  end
  return value
end

local ESCAPES = { [34] = '"', [92] = "\\", [47] = "/", [98] = "\b", [102] = "\f",
  [110] = "\n", [114] = "\r", [116] = "\t" }

-- The index after an escape that begins at `i`, and the code point where it is a \u.
local function after_escape(p, i)
  local c = p[i + 1]
  if c ~= 117 then
    if not ESCAPES[c] then broken(i, "a backslash is followed by what JSON does not know") end
    return i + 2
  end
  local point = hex4(p, i + 2)
  if point < 0xD800 or point > 0xDFFF then return i + 6, point end
  if point > 0xDBFF or p[i + 6] ~= BACKSLASH or p[i + 7] ~= 117 then
    broken(i, "half of a surrogate pair")
  end
  local low = hex4(p, i + 8)
  if low < 0xDC00 or low > 0xDFFF then broken(i, "half of a surrogate pair") end
  return i + 12, 0x10000 + (point - 0xD800) * 0x400 + (low - 0xDC00)
end

local function continues(p, i, least, most)
  local c = p[i]
  return c >= (least or 0x80) and c <= (most or 0xBF)
end

-- The index after a character of two to four bytes (RFC 3629: none longer than it need be).
local function after_character(p, i)
  local c = p[i]
  if c >= 0xC2 and c <= 0xDF and continues(p, i + 1) then return i + 2 end
  if c >= 0xE0 and c <= 0xEF
      and continues(p, i + 1, c == 0xE0 and 0xA0 or nil, c == 0xED and 0x9F or nil)
      and continues(p, i + 2) then
    return i + 3
  end
  if c >= 0xF0 and c <= 0xF4
      and continues(p, i + 1, c == 0xF0 and 0x90 or nil, c == 0xF4 and 0x8F or nil)
      and continues(p, i + 2) and continues(p, i + 3) then
    return i + 4
  end
  broken(i, "a string is not UTF-8")
end

-- The index after the string that begins at `i`; also whether it has escapes.
local function after_string(p, i)
  local escaped = false
  i = i + 1
  while true do
    local c = p[i]
    if c == QUOTE then return i + 1, escaped end
    if c < 32 then broken(i, "a string does not end, or holds a control character") end
    if c == BACKSLASH then
      escaped = true
      i = after_escape(p, i)
    elseif c < 0x80 then
      i = i + 1
    else
      i = after_character(p, i)
    end
  end
end

local function utf8_of(point)
  local floor, char = math.floor, string.char
  if point < 0x80 then return char(point) end
  if point < 0x800 then return char(0xC0 + floor(point / 64), 0x80 + point % 64) end
  if point < 0x10000 then
    return char(0xE0 + floor(point / 4096), 0x80 + floor(point / 64) % 64, 0x80 + point % 64)
  end
  return char(0xF0 + floor(point / 262144), 0x80 + floor(point / 4096) % 64,
    0x80 + floor(point / 64) % 64, 0x80 + point % 64)
end

-- The string that begins at `i`, as a Lua string, and the index after it.
local function string_at(p, i)
  if p[i] ~= QUOTE then broken(i, "a name is expected here") end
  local stop, escaped = after_string(p, i)
  if not escaped then return ffi.string(p + i + 1, stop - i - 2), stop end
  local parts, k = {}, i + 1
  while k < stop - 1 do
    if p[k] == BACKSLASH then
      local following, point = after_escape(p, k)
      parts[#parts + 1] = point and utf8_of(point) or ESCAPES[p[k + 1]]
      k = following
    else
      parts[#parts + 1] = string.char(p[k])
      k = k + 1
    end
  end
  return table.concat(parts), stop
end

local POWERS = ffi.new("double[617]")
for exponent = -308, 308 do POWERS[exponent + 308] = tonumber("1e" .. exponent) end

local INEXACT = 999

-- The index after the number that begins at `i`, its value, whether it is written as a whole
-- number, and how many digits it has. At most 15 digits say that the value is exact (the quotient
-- or product of two doubles that are), others that it is good to about 15 digits, or NaN where it
-- has to be read in another way. An index of 0 says that no number begins here.
local function number_at(p, i)
  local c = p[i]
  local sign = 1
  if c == 45 then
    sign = -1
    i = i + 1
    c = p[i]
  end
  local value, digits, scale, whole = 0.0, 0, 0, true
  if c == 48 then
    i = i + 1
    c = p[i]
    digits = 1
    if is_digit(c) then broken(i, "a number begins with a zero") end
  elseif is_digit(c) then
    repeat
      value = value * 10 + (c - 48)
      digits = digits + 1
      i = i + 1
      c = p[i]
    until c < 48 or c > 57
  else
    return 0, 0, false, 0
  end
  if c == 46 then
    whole = false
    i = i + 1
    c = p[i]
    if not is_digit(c) then broken(i, "a point is not followed by a digit") end
    repeat
      value = value * 10 + (c - 48)
      scale = scale - 1
      i = i + 1
      c = p[i]
    until c < 48 or c > 57
    digits = digits - scale
  end
  if c == 101 or c == 69 then
    whole = false
    i = i + 1
    c = p[i]
    local exponent, direction = 0, 1
    if c == 45 then direction = -1 end
    if c == 45 or c == 43 then
      i = i + 1
      c = p[i]
    end
    if not is_digit(c) then broken(i, "an exponent has no digit") end
    repeat
      if exponent < 100000 then exponent = exponent * 10 + (c - 48) end
      i = i + 1
      c = p[i]
    until c < 48 or c > 57
    -- Triton's reader takes it for too large, whatever stands before it.
    if direction == 1 and exponent > 308 - scale then return i, sign / 0, false, INEXACT end
    scale = scale + direction * exponent
  end
  if digits > 300 or scale < -308 or scale > 308 then return i, 0 / 0, whole, INEXACT end
  if scale < -22 or scale > 22 then
    value, digits = value * POWERS[scale + 308], INEXACT
  elseif scale < 0 then
    value = value / POWERS[308 - scale]
  elseif scale > 0 then
    value = value * POWERS[scale + 308]
  end
  return i, sign * value, whole, digits
end

-- NaN and infinities are no JSON, but Triton reads them. Index 0: neither begins here.
local function special_at(p, i)
  local sign = 1
  if p[i] == 45 then
    sign = -1
    i = i + 1
  end
  if p[i] == 78 and p[i + 1] == 97 and p[i + 2] == 78 then return i + 3, 0 / 0 end
  if p[i] ~= 73 or p[i + 1] ~= 110 or p[i + 2] ~= 102 then return 0, 0 end
  i = i + 3
  if p[i] ~= 105 then return i, sign / 0 end
  for k = 1, 5 do
    if p[i + k - 1] ~= ("inity"):byte(k) then return 0, 0 end
  end
  return i + 5, sign / 0
end

local WORDS = { [110] = "null", [116] = "true", [102] = "false" }

-- What begins at `i`: "string", "list", "object", "null", "true", "false" or "number".
local function kind_at(p, i)
  local c = p[i]
  if c == QUOTE then return "string" end
  if c == OPEN_LIST then return "list" end
  if c == OPEN_OBJECT then return "object" end
  local word = WORDS[c]
  if word then
    for k = 1, #word do
      if p[i + k - 1] ~= word:byte(k) then broken(i, "no JSON value begins here") end
    end
    return word
  end
  return "number"
end

-- The index after the value that begins at `i`, and its kind.
local function after_value(p, i, depth)
  if depth > DEEPEST then broken(i, "nested more than " .. DEEPEST .. " levels deep") end
  local kind = kind_at(p, i)
  if kind == "string" then return (after_string(p, i)), kind end
  if kind == "number" then
    local stop = number_at(p, i)
    if stop == 0 then stop = special_at(p, i) end
    if stop == 0 then
      broken(i, p[i] == 0 and "it ends too early" or "no JSON value begins here")
    end
    return stop, kind
  end
  if kind ~= "list" and kind ~= "object" then return i + #kind, kind end
  local close = kind == "list" and CLOSE_LIST or CLOSE_OBJECT
  i = after_space(p, i + 1)
  if p[i] == close then return i + 1, kind end
  while true do
    if kind == "object" then
      if p[i] ~= QUOTE then broken(i, "a name is expected here") end
      i = after_space(p, (after_string(p, i)))
      if p[i] ~= COLON then broken(i, "a colon is expected here") end
      i = after_space(p, i + 1)
    end
    i = after_space(p, (after_value(p, i, depth + 1)))
    if p[i] == close then return i + 1, kind end
    if p[i] ~= COMMA then broken(i, "a comma or an end is expected here") end
    i = after_space(p, i + 1)
  end
end

-- Calls `visit(name, i)` for each member of the object at `i`; it returns the index after the
-- value. Returns the index after the object.
local function each_member(p, i, visit)
  i = after_space(p, i + 1)
  if p[i] == CLOSE_OBJECT then return i + 1 end
  while true do
    local name, stop = string_at(p, i)
    i = after_space(p, stop)
    if p[i] ~= COLON then broken(i, "a colon is expected here") end
    i = after_space(p, visit(name, after_space(p, i + 1)))
    if p[i] == CLOSE_OBJECT then return i + 1 end
    if p[i] ~= COMMA then broken(i, "a comma or an end is expected here") end
    i = after_space(p, i + 1)
  end
end

-- The same for each element of the list at `i`, with its place from 0.
local function each_element(p, i, visit)
  i = after_space(p, i + 1)
  if p[i] == CLOSE_LIST then return i + 1 end
  local place = 0
  while true do
    i = after_space(p, visit(place, i))
    if p[i] == CLOSE_LIST then return i + 1 end
    if p[i] ~= COMMA then broken(i, "a comma or an end is expected here") end
    i = after_space(p, i + 1)
    place = place + 1
  end
end
