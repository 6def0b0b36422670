-- Judges the elements of one tensor, as JSON or as bytes, against its data type and its limits.
-- A rule holds `type` (of TYPES) and, where the contract says so, `min`, `max` and `nan`.
local TYPES = {
  BOOL = { kind = "bool", size = 1 },
  UINT8 = { kind = "whole", size = 1, least = 0, most = 255, c = "uint8_t" },
  UINT16 = { kind = "whole", size = 2, least = 0, most = 65535, c = "uint16_t" },
  UINT32 = { kind = "whole", size = 4, least = 0, most = 4294967295, c = "uint32_t" },
  UINT64 = { kind = "whole", size = 8, least = 0, most = 18446744073709551615, c = "uint64_t" },
  INT8 = { kind = "whole", size = 1, least = -128, most = 127, c = "int8_t" },
  INT16 = { kind = "whole", size = 2, least = -32768, most = 32767, c = "int16_t" },
  INT32 = { kind = "whole", size = 4, least = -2147483648, most = 2147483647, c = "int32_t" },
  INT64 = { kind = "whole", size = 8, least = -2 ^ 63, most = 2 ^ 63, c = "int64_t" },
  FP16 = { kind = "real", size = 2, largest = 65504, c = "uint16_t", binary_only = true },
  BF16 = { kind = "real", size = 2, largest = 3.3895313892515355e38, c = "uint16_t",
    binary_only = true },
  FP32 = { kind = "real", size = 4, largest = 3.4028234663852886e38, c = "float" },
  FP64 = { kind = "real", size = 8, largest = 1.7976931348623157e308, c = "double" },
  BYTES = { kind = "text", size = 0 },
}

local single = ffi.new("float[1]")

local function to_single(value)
  single[0] = value
  return tonumber(single[0])
end

local function half_to_number(h)
  local exponent, fraction = bit.band(bit.rshift(h, 10), 31), bit.band(h, 1023)
  local sign = h >= 32768 and -1 or 1
  if exponent == 0 then return sign * fraction * 2 ^ -24 end
  if exponent == 31 then return fraction == 0 and sign / 0 or 0 / 0 end
  return sign * (1 + fraction / 1024) * 2 ^ (exponent - 15)
end

local function brain_to_number(h)
  local exponent, fraction = bit.band(bit.rshift(h, 7), 255), bit.band(h, 127)
  local sign = h >= 32768 and -1 or 1
  if exponent == 0 then return sign * fraction * 2 ^ -133 end
  if exponent == 255 then return fraction == 0 and sign / 0 or 0 / 0 end
  return sign * (1 + fraction / 128) * 2 ^ (exponent - 127)
end

-- The nearest number to `value` with `bits` bits of fraction: what a limit is in a short type.
local function rounded(value, bits, least_exponent)
  if value == 0 or value ~= value or value == 1 / 0 or value == -1 / 0 then return value end
  local _, exponent = math.frexp(value)
  local unit = 2 ^ (math.max(exponent - 1, least_exponent) - bits)
  local quotient = value / unit
  local below = math.floor(quotient)
  local over = quotient - below
  if over > 0.5 or (over == 0.5 and below % 2 == 1) then below = below + 1 end
  return below * unit
end

local ROUNDED = {
  FP16 = function(value) return rounded(value, 10, -14) end,
  BF16 = function(value) return rounded(value, 7, -126) end,
  FP32 = to_single,
}

local function as_stored(name, value)
  local round = ROUNDED[name]
  return round and round(value) or value
end

-- What can be computed once for a tensor: limits as its type stores them, and the limits between
-- which a value that is known to fifteen digits is certainly good.
local function element_rule(name, min, max, nan)
  local kind = TYPES[name]
  local rule = { name = name, type = kind, min = min, max = max, refuse_nan = nan == "refuse" }
  rule.low = min and as_stored(name, min) or -1 / 0
  rule.high = max and as_stored(name, max) or 1 / 0
  if kind.kind == "whole" then
    rule.low = math.max(rule.low, kind.least)
    rule.high = math.min(rule.high, kind.most)
  end
  local low = math.max(rule.low, -(kind.largest or 1 / 0))
  local high = math.min(rule.high, kind.largest or 1 / 0)
  rule.exact_low, rule.exact_high = low, high
  rule.surely_low = low + math.abs(low) * 1e-9
  rule.surely_high = high - math.abs(high) * 1e-9
  return rule
end

local function number_text(value) return string.format("%.15g", value) end

local function limit_words(rule, value)
  if value < rule.low and rule.min and value < rule.min then
    return "below the contract's least value, " .. number_text(rule.min)
  elseif value > rule.high and rule.max and value > rule.max then
    return "above the contract's largest value, " .. number_text(rule.max)
  end
  return "out of the range of " .. rule.name
end

-- nil, or what is wrong with an element that is stored as `value`.
local function real_fault(rule, value)
  if value ~= value then
    return rule.refuse_nan and "NaN, which the contract refuses" or nil
  end
  if value < rule.low or value > rule.high then return limit_words(rule, value) end
end

local NAMES = { string = "a string", list = "a list", object = "an object", null = "null",
  ["true"] = "a boolean", ["false"] = "a boolean", number = "a number" }
local WANTED = { whole = "a whole number", real = "a number", bool = "true or false",
  text = "a string" }

local function mismatch(p, i, rule)
  local stop, kind = after_value(p, i, 1)
  return stop, NAMES[kind] .. ", where " .. rule.name .. " takes " .. WANTED[rule.type.kind]
end

local function exact_real(p, i, stop, rule)
  local value = tonumber(ffi.string(p + i, stop - i))
  local stored = as_stored(rule.name, value)
  if stored == 1 / 0 or stored == -1 / 0 then return "out of the range of " .. rule.name end
  return real_fault(rule, stored)
end

local function check_real(p, i, rule)
  local stop, value, _, digits = number_at(p, i)
  if stop ~= 0 and value > rule.surely_low and value < rule.surely_high then return stop end
  if stop == 0 then
    stop, value = special_at(p, i)
    if stop == 0 then return mismatch(p, i, rule) end
    return stop, real_fault(rule, value)
  end
  if digits <= 15 and value >= rule.exact_low and value <= rule.exact_high then return stop end
  return stop, exact_real(p, i, stop, rule)
end

local function exact_whole(p, i, stop, rule)
  local minus = p[i] == 45
  local magnitude = 0ULL
  for k = minus and i + 1 or i, stop - 1 do
    local digit = p[k] - 48
    if magnitude > (0xFFFFFFFFFFFFFFFFULL - digit) / 10 then
      return "out of the range of " .. rule.name
    end
    magnitude = magnitude * 10 + digit
  end
  local most = 0xFFFFFFFFFFFFFFFFULL
  if rule.name == "INT64" then
    most = minus and 0x8000000000000000ULL or 0x7FFFFFFFFFFFFFFFULL
  elseif minus then
    most = 0ULL
  end
  if magnitude > most then return "out of the range of " .. rule.name end
  local value = tonumber(magnitude)
  if minus then value = -value end
  if value < rule.low or value > rule.high then return limit_words(rule, value) end
end

local function check_whole(p, i, rule)
  local stop, value, whole, digits = number_at(p, i)
  if stop == 0 then return mismatch(p, i, rule) end
  if not whole then
    return stop, "not written as a whole number, which " .. rule.name .. " takes"
  end
  if digits > 15 then return stop, exact_whole(p, i, stop, rule) end
  if value < rule.low or value > rule.high then return stop, limit_words(rule, value) end
  return stop
end

local function check_text(p, i, rule)
  if p[i] ~= QUOTE then return mismatch(p, i, rule) end
  return (after_string(p, i))
end

local function check_bool(p, i, rule)
  local kind = kind_at(p, i)
  if kind ~= "true" and kind ~= "false" then return mismatch(p, i, rule) end
  return i + #kind
end

local function check_nothing(p, i)
  return (after_value(p, i, 1))
end

local CHECKS = { real = check_real, whole = check_whole, text = check_text, bool = check_bool }

-- Walks through the list at `i`, nested as it may be. Returns the index after it, how many
-- elements it holds, and of the first that is wrong its index and what is wrong.
local function walk(p, i, check, rule)
  local depth, count, first, words = 0, 0, nil, nil
  while true do
    i = after_space(p, i)
    local opened = p[i] == OPEN_LIST
    if opened then
      depth = depth + 1
      if depth > DEEPEST then broken(i, "nested more than " .. DEEPEST .. " levels deep") end
      i = after_space(p, i + 1)
    else
      local stop, fault = check(p, i, rule)
      if fault and not first then first, words = i, fault end
      count = count + 1
      i = after_space(p, stop)
    end
    if not opened or p[i] == CLOSE_LIST then
      while p[i] == CLOSE_LIST do
        depth = depth - 1
        if depth == 0 then return i + 1, count, first, words end
        i = after_space(p, i + 1)
      end
      if p[i] ~= COMMA then broken(i, "a comma or an end is expected here") end
      i = i + 1
    end
  end
end

ffi.cdef("size_t strcspn(const char *text, const char *marks);")

-- The index after the list at `i`, whose elements are not looked at: ten times as fast.
local function skim(p, i)
  local depth = 0
  while true do
    local c = p[i]
    if c == QUOTE then
      i = after_string(p, i)
    else
      if c == OPEN_LIST or c == OPEN_OBJECT then
        depth = depth + 1
        if depth > DEEPEST then broken(i, "nested more than " .. DEEPEST .. " levels deep") end
      elseif c == CLOSE_LIST or c == CLOSE_OBJECT then
        depth = depth - 1
      else
        broken(i, "it ends too early")
      end
      i = i + 1
      if depth == 0 then return i end
    end
    i = i + tonumber(ffi.C.strcspn(ffi.cast("const char*", p + i), '[]{}"'))
  end
end

-- The JSON pointer, below the list at `start`, of the element at `target`.
local function place_in_list(p, start, target)
  local places, i = {}, start
  while i < target do
    local c = p[i]
    if c == OPEN_LIST then
      places[#places + 1] = 0
    elseif c == CLOSE_LIST then
      places[#places] = nil
    elseif c == COMMA then
      places[#places] = places[#places] + 1
    elseif c == QUOTE then
      i = after_string(p, i) - 1
    elseif c == OPEN_OBJECT then
      i = after_value(p, i, 1) - 1
    end
    i = i + 1
  end
  return "/" .. table.concat(places, "/")
end

-- A NaN is known by its bits, before it is read as a number: LuaJIT keeps other things than numbers
-- in the bits of some NaNs, and would take a caller's NaN for one of them.
local READERS = {
  FP16 = function(elements, _, k) return half_to_number(elements[k]) end,
  BF16 = function(elements, _, k) return brain_to_number(elements[k]) end,
  FP32 = function(elements, words, k)
    return bit.band(words[k], 0x7FFFFFFF) > 0x7F800000 and 0 / 0 or elements[k]
  end,
  FP64 = function(elements, words, k)
    local high = bit.band(words[2 * k + 1], 0x7FFFFFFF)
    if high > 0x7FF00000 or (high == 0x7FF00000 and words[2 * k] ~= 0) then return 0 / 0 end
    return elements[k]
  end,
}

local function read_whole(elements, _, k) return tonumber(elements[k]) end

-- Of `count` elements at `bytes`: the place of the first that is wrong, and what is wrong.
local function check_binary(bytes, count, rule)
  local kind = rule.type
  if kind.kind ~= "whole" and kind.kind ~= "real" then return end
  local low, high, refuse_nan = rule.low, rule.high, rule.refuse_nan
  if not (rule.min or rule.max or (refuse_nan and kind.kind == "real")) then return end
  local elements = ffi.cast("const " .. kind.c .. "*", bytes)
  local words = ffi.cast("const uint32_t*", bytes)
  local read = READERS[rule.name] or read_whole
  for k = 0, count - 1 do
    local value = read(elements, words, k)
    if not (value >= low and value <= high) then
      local fault = real_fault(rule, value)
      if fault then return k, fault end
    end
  end
end

-- Each text has its length before it, four bytes, least first. Returns how many there are, or nil
-- where the lengths do not fit the bytes.
local function count_texts(bytes, length)
  local at, count = 0, 0
  while at < length do
    if at + 4 > length then return nil end
    local size = bytes[at] + bytes[at + 1] * 256 + bytes[at + 2] * 65536
      + bytes[at + 3] * 16777216
    at = at + 4 + size
    count = count + 1
  end
  return at == length and count or nil
end
