-- Reads what a contract says of a model's inputs: lines of text that come with the route's metadata
-- (see `requests.py`).
local rules_by_text = {}
local known_texts = 0

local function split_line(line)
  local fields = {}
  for field in (line .. "\t"):gmatch("([^\t]*)\t") do fields[#fields + 1] = field end
  return fields
end

local function read_rules(text)
  local rules = { inputs = {}, outputs = {}, names = {}, output_names = {} }
  for line in text:gmatch("[^\n]+") do
    local f = split_line(line)
    if f[1] == "input" then
      local input = element_rule(f[3], tonumber(f[5]), tonumber(f[6]), f[7])
      input.dims = {}
      for size in f[4]:gmatch("[^,]+") do
        input.dims[#input.dims + 1] = tonumber(size) or size
      end
      rules.inputs[f[2]] = input
      rules.names[#rules.names + 1] = f[2]
    elseif f[1] == "output" then
      rules.outputs[f[2]] = true
      rules.output_names[#rules.output_names + 1] = f[2]
    elseif f[1] == "batch" then
      rules.most_rows = tonumber(f[2])
    end
  end
  return rules
end

-- Rules change rarely and are asked for with every request.
local function rules_of(text)
  local found = rules_by_text[text]
  if found then return found end
  if known_texts >= 4096 then rules_by_text, known_texts = {}, 0 end
  found = read_rules(text)
  rules_by_text[text] = found
  known_texts = known_texts + 1
  return found
end

local ANY = {}
for name in pairs(TYPES) do ANY[name] = element_rule(name, nil, nil, "allow") end
