-- Judges a whole inference request of the v2 protocol against the inputs of a contract.
-- Up to so many bytes of JSON every element is looked at, which takes three milliseconds for each
-- mebibyte, in which the gateway's worker does nothing else. Beyond it, and in the binary part
-- nowhere, the elements of JSON are left to Triton.
local MOST_READ = 4 * 1024 * 1024

local function judge_input(p, input, report, state)
  local rules = state.rules
  if not input.name or not input.datatype then return end
  if state.seen[input.name] then
    return add(report, input.pointer .. "/name", "The input is given twice.")
  end
  state.seen[input.name] = true
  local known = rules and rules.inputs[input.name]
  if rules and not known then
    return add(report, input.pointer .. "/name", "The model has no such input; it takes "
      .. listed(rules.names) .. ".")
  end
  input.rule = rule_of(input, rules)
  if not input.rule then
    return add(report, input.pointer .. "/datatype", known and ("The model takes " .. known.name
      .. " here.") or "There is no such data type.")
  end
  if not input.shape then return end
  if rules then judge_shape(input, report, state) end
  if input.data and input.size then
    add(report, input.pointer .. "/data", "The data is both here and in the binary part.")
  elseif input.data then
    judge_data(p, input, report, state.described)
  elseif input.size then
    judge_bytes(input, report, state.tail)
  else
    add(report, input.pointer .. "/data", "This is missing.")
  end
end

local function output_at(p, i, report, pointer, state)
  if kind_at(p, i) ~= "object" then
    add(report, pointer, "An output has to be an object.")
    return (after_value(p, i, 2))
  end
  local name
  local stop = each_member(p, i, function(member, at)
    if member == "parameters" then
      return (parameters_at(p, at, report, pointer .. "/parameters", OUTPUT_PARAMETERS))
    end
    local value, kind, following = small_value(p, at)
    if member == "name" and expect(report, pointer .. "/name", kind, "string", "a text") then
      name = value
    end
    return following
  end)
  if not name then
    if not report.n or report.n == 0 then
      add(report, pointer .. "/name", "This is missing.")
    end
  elseif state.rules and not state.rules.outputs[name] then
    add(report, pointer .. "/name", "The model has no such output; it gives "
      .. listed(state.rules.output_names) .. ".")
  end
  return stop
end

local function list_at(p, i, report, pointer, visit)
  if kind_at(p, i) ~= "list" then
    add(report, pointer, "This has to be a list.")
    return (after_value(p, i, 1))
  end
  return each_element(p, i, visit)
end

-- What the members of the request say; the inputs are judged once all is read.
local function read_request(p, report, state)
  local inputs, said = {}, {}
  local i = after_space(p, 0)
  if kind_at(p, i) ~= "object" then broken(i, "a request is a JSON object") end
  i = each_member(p, i, function(name, at)
    if said[name] then add(report, "/" .. name, "This is said twice.") end
    if name == "inputs" then
      said.inputs = true
      return list_at(p, at, report, "/inputs", function(place, from)
        local stop, input = input_at(p, from, report, "/inputs/" .. place, state.rules,
          state.described > MOST_READ)
        inputs[#inputs + 1] = input
        return stop
      end)
    elseif name == "outputs" then
      said.outputs = true
      return list_at(p, at, report, "/outputs", function(place, from)
        return output_at(p, from, report, "/outputs/" .. place, state)
      end)
    elseif name == "parameters" then
      said.parameters = true
      return (parameters_at(p, at, report, "/parameters", REQUEST_PARAMETERS, "scalar"))
    elseif name == "id" then
      said.id = true
      local _, kind, stop = small_value(p, at)
      expect(report, "/id", kind, "string", "a text")
      return stop
    end
    return (after_value(p, at, 2))
  end)
  i = after_space(p, i)
  if i ~= state.described then broken(i, "nothing may follow the request") end
  if not said.inputs then add(report, "/inputs", "This is missing.") end
  return inputs
end

local function judge_tail(report, state)
  local tail = state.tail
  if tail.at ~= tail.length then
    add(report, "", "The binary part has " .. number_text(tail.length) .. " bytes; the inputs say "
      .. number_text(tail.at) .. ".")
  end
end

-- A body that is nothing but the bytes of the only input, one row of it (header length 0).
local function faults_of_raw(bytes, length, rules)
  local report = new_report()
  if not rules then return report end
  local rule = rules.inputs[rules.names[1]]
  if #rules.names ~= 1 then
    add(report, "/inputs", "Raw bytes are for models of one input; this one takes "
      .. listed(rules.names) .. ".")
    return report
  end
  if rule.type.kind == "text" then return report end
  local row, free = rule.type.size, 0
  for _, size in ipairs(rule.dims) do
    if type(size) == "number" then row = row * size
    elseif size ~= "batch" then free = free + 1 end
  end
  if free > 1 or length == 0 or length % row ~= 0 or (free == 0 and length ~= row) then
    add(report, "", "The body has " .. number_text(length) .. " bytes; one row has "
      .. number_text(row) .. (free > 0 and " or a multiple" or "") .. ".")
    return report
  end
  local first, words = check_binary(bytes, length / rule.type.size, rule)
  if first then add(report, "/inputs/0/data/" .. number_text(first), "This is " .. words .. ".") end
  return report
end

-- The faults of a request: `text` is its JSON, `tail` the bytes after it. Rules nil: no contract.
local function faults_of(text, tail, rules)
  local report = new_report()
  local p = ffi.cast("const uint8_t*", text)
  local state = { rules = rules, seen = {}, described = #text,
    tail = { p = ffi.cast("const uint8_t*", tail), at = 0, length = #tail } }
  local fine, fault = pcall(function()
    local inputs = read_request(p, report, state)
    for _, input in ipairs(inputs) do judge_input(p, input, report, state) end
    if report.n == 0 then judge_tail(report, state) end
    for _, name in ipairs(rules and rules.names or {}) do
      if not state.seen[name] then
        add(report, "/inputs", "The input '" .. name .. "' is missing.")
      end
    end
  end)
  if fine then return report end
  -- A fault of ours must not refuse a good request; what ends a Triton is refused all the same.
  if type(fault) ~= "table" then return dangers_of(text, #text + #tail), fault end
  return { n = 1, { pointer = "", detail = "The body is no JSON that can be read: "
    .. fault.detail .. ", at byte " .. number_text(fault.at) .. "." } }
end
