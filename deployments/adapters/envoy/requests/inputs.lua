-- Reads the inputs of a request as they are written, and collects what is wrong with them.
local MOST_FAULTS = 16

local function new_report() return { n = 0 } end

local function add(report, pointer, detail)
  if report.n >= MOST_FAULTS then return end
  report.n = report.n + 1
  report[report.n] = { pointer = pointer, detail = detail }
end

local function listed(names)
  local shown = {}
  for k = 1, math.min(#names, 8) do shown[k] = "'" .. names[k] .. "'" end
  return table.concat(shown, ", ") .. (#names > 8 and ", …" or "")
end

-- A value at `i` that is small: a Lua string, number or boolean; its kind; the index after it.
local function small_value(p, i)
  local stop, kind = after_value(p, i, 1)
  if kind == "string" then return string_at(p, i), kind, stop end
  if kind == "true" or kind == "false" then return kind == "true", "boolean", stop end
  if kind == "number" then
    local read, value, whole, digits = number_at(p, i)
    if read ~= 0 and whole and digits <= 15 then return value, "whole", stop end
    return value, "number", stop
  end
  return nil, kind, stop
end

local function expect(report, pointer, kind, wanted, words)
  if kind == wanted then return true end
  add(report, pointer, "This has to be " .. words .. ".")
  return false
end

local function parameter_fault(name, value, kind, wanted)
  if wanted == "size" then
    return (kind ~= "whole" or value < 0) and "a whole number of at least 0" or nil
  elseif wanted == "identity" then
    return kind ~= "string" and (kind ~= "whole" or value < 0) and "a whole number or a text" or nil
  elseif wanted == "boolean" then
    return kind ~= "boolean" and "true or false" or nil
  elseif wanted == "classes" then
    return (kind ~= "whole" or value < 1) and "a whole number of at least 1" or nil
  elseif wanted == "scalar" then
    local fine = kind == "string" or kind == "boolean" or kind == "whole" or kind == "number"
    return not fine and "a text, a number or a boolean" or nil
  end
end

local SHARED = "Shared memory is not offered through the gateway."

-- Reads the object of parameters at `i`; returns the index after it and what it says by name.
local function parameters_at(p, i, report, pointer, known, others)
  local said = {}
  if kind_at(p, i) ~= "object" then
    add(report, pointer, "This has to be an object.")
    return (after_value(p, i, 2)), said
  end
  local stop = each_member(p, i, function(name, at)
    local value, kind, following = small_value(p, at)
    local place = pointer .. "/" .. name:gsub("~", "~0"):gsub("/", "~1")
    local fault = parameter_fault(name, value, kind, known[name] or others)
    if name:sub(1, 14) == "shared_memory_" then add(report, place, SHARED)
    elseif fault then add(report, place, "This has to be " .. fault .. ".")
    elseif said[name] ~= nil then add(report, place, "This is said twice.")
    else said[name] = value end
    return following
  end)
  return stop, said
end

local REQUEST_PARAMETERS = { sequence_id = "identity", sequence_start = "boolean",
  sequence_end = "boolean", priority = "size", timeout = "size", binary_data_output = "boolean" }
local INPUT_PARAMETERS = { binary_data_size = "size" }
local OUTPUT_PARAMETERS = { binary_data = "boolean", classification = "classes" }

local function shape_at(p, i, report, pointer)
  if kind_at(p, i) ~= "list" then
    add(report, pointer, "This has to be a list of whole numbers.")
    return (after_value(p, i, 2)), nil
  end
  local shape, good = {}, true
  local stop = each_element(p, i, function(place, at)
    local value, kind, following = small_value(p, at)
    if kind ~= "whole" or value < 0 then
      if good then
        add(report, pointer .. "/" .. place, "A size has to be a whole number of at least 0.")
      end
      good = false
    end
    shape[place + 1] = value
    return following
  end)
  return stop, good and shape or nil
end

local function elements_of(shape)
  local count = 1
  for k = 1, #shape do count = count * shape[k] end
  return count
end

local function judge_shape(input, report, state)
  local rule, shape, pointer = input.rule, input.shape, input.pointer .. "/shape"
  if #shape ~= #rule.dims then
    return add(report, pointer, "The shape has " .. #shape .. " dimensions; the model takes "
      .. #rule.dims .. ".")
  end
  for k = 1, #shape do
    local wanted = rule.dims[k]
    local place = pointer .. "/" .. (k - 1)
    if type(wanted) == "number" then
      if shape[k] ~= wanted then
        add(report, place, "The size is " .. number_text(shape[k]) .. "; the model takes "
          .. wanted .. ".")
      end
    elseif shape[k] < 1 then
      add(report, place, "The size has to be at least 1.")
    elseif wanted == "batch" then
      if state.rules.most_rows and shape[k] > state.rules.most_rows then
        add(report, place, "A batch has at most " .. state.rules.most_rows .. " rows.")
      elseif state.rows and state.rows ~= shape[k] then
        add(report, place, "Other inputs have " .. number_text(state.rows) .. " rows.")
      end
      state.rows = state.rows or shape[k]
    end
  end
end

local function judge_count(input, report, count)
  local wanted = elements_of(input.shape)
  if count ~= wanted then
    add(report, input.pointer .. "/data", "There are " .. number_text(count)
      .. " elements; the shape says " .. number_text(wanted) .. ".")
  end
end

-- Walks through the data of an input whose rule is known; `count` stays nil where it is no list.
local function read_data(p, i, input, skimming)
  if kind_at(p, i) ~= "list" then return (after_value(p, i, 2)) end
  if skimming then
    input.skimmed = true
    return skim(p, i)
  end
  local check = input.rule and CHECKS[input.rule.type.kind] or check_nothing
  local stop, count, first, words = walk(p, i, check, input.rule)
  input.count, input.first, input.words = count, first, words
  input.judged = input.rule ~= nil
  return stop
end

-- Triton reserves memory for what a shape claims; each element takes at least a byte of the body.
local function judge_claim(input, report, bytes)
  if elements_of(input.shape) > bytes then
    add(report, input.pointer .. "/shape", "The shape claims more elements than the body holds.")
  end
end

local function judge_data(p, input, report, bytes)
  if input.rule.type.binary_only then
    return add(report, input.pointer .. "/datatype",
      input.rule.name .. " can be sent as binary data only.")
  end
  if input.skimmed then return judge_claim(input, report, bytes) end
  if not input.judged then read_data(p, input.data, input) end
  if not input.count then return add(report, input.pointer .. "/data", "This has to be a list.") end
  if input.first then
    add(report, input.pointer .. "/data" .. place_in_list(p, input.data, input.first),
      "This is " .. input.words .. ".")
  end
  judge_count(input, report, input.count)
end

local function judge_bytes(input, report, tail)
  local pointer = input.pointer .. "/parameters/binary_data_size"
  local bytes, size = tail.p + tail.at, input.size
  tail.at = tail.at + size
  if tail.at > tail.length then return end
  local rule, count = input.rule, elements_of(input.shape)
  if rule.type.kind == "text" then
    local found = count_texts(bytes, size)
    if found ~= count then
      add(report, pointer, found and ("There are " .. found .. " texts; the shape says "
        .. number_text(count) .. ".") or "The lengths of the texts do not fit the data.")
    end
    return
  end
  if count * rule.type.size ~= size then
    return add(report, pointer, "The shape needs " .. number_text(count * rule.type.size)
      .. " bytes, not " .. number_text(size) .. ".")
  end
  local first, words = check_binary(bytes, count, rule)
  if first then
    add(report, input.pointer .. "/data/" .. number_text(first), "This is " .. words .. ".")
  end
end

local function rule_of(input, rules)
  if not rules then return ANY[input.datatype or ""] end
  local rule = rules.inputs[input.name or ""]
  return rule and rule.name == input.datatype and rule or nil
end

-- One input as it is written at `i`: what it says, and the index after it.
local function input_at(p, i, report, pointer, rules, skimming)
  local input, said = { pointer = pointer }, {}
  if kind_at(p, i) ~= "object" then
    add(report, pointer, "An input has to be an object.")
    return (after_value(p, i, 2)), nil
  end
  local stop = each_member(p, i, function(name, at)
    local place = pointer .. "/" .. name
    if said[name] and (name == "name" or name == "datatype" or name == "shape" or name == "data"
        or name == "parameters") then
      add(report, place, "This is said twice.")
    end
    said[name] = true
    if name == "name" or name == "datatype" then
      local value, kind, following = small_value(p, at)
      if expect(report, place, kind, "string", "a text") then input[name] = value end
      return following
    elseif name == "shape" then
      local following, shape = shape_at(p, at, report, place)
      input.shape = shape
      return following
    elseif name == "data" then
      input.data = at
      input.rule = rule_of(input, rules)
      return read_data(p, at, input, skimming)
    elseif name == "parameters" then
      local following, parameters = parameters_at(p, at, report, place, INPUT_PARAMETERS)
      input.size = parameters.binary_data_size
      return following
    end
    return (after_value(p, at, 3))
  end)
  for _, name in ipairs({ "name", "datatype", "shape" }) do
    if not said[name] then add(report, pointer .. "/" .. name, "This is missing.") end
  end
  return stop, input
end
