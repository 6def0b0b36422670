-- Who calls, and may they? An API key is compared by its SHA-256, so that no key stands in the
-- gateway's configuration; a token was checked by the filter before, which wrote down what it says.
-- The route says what its endpoint asks for (filter context). Lists may be long, and what Envoy
-- holds is copied each time that a script looks at it (measured: 0.3 us an entry), so they stand
-- before this as tables: KEYS (digest to caller), BLOCKED, ALLOWED and DENIED (by model).
local band, bor, bxor, bnot = bit.band, bit.bor, bit.bxor, bit.bnot
local ror, rshift, lshift, tohex, tobit = bit.ror, bit.rshift, bit.lshift, bit.tohex, bit.tobit
local KEY_PREFIX, LONGEST_KEY, WORDS = "cvk_", 128, {}
local ROUND, START, NOBODY = {}, {}, {}

-- FIPS 180-4: the first 32 bits of the fractions of the cube and square roots of the first primes.
local function fraction(number) return tobit(math.floor((number % 1) * 4294967296)) end

local function is_prime(number)
  for divisor = 2, math.floor(number ^ 0.5) do
    if number % divisor == 0 then return false end
  end
  return true
end

do
  local candidate = 2
  while #ROUND < 64 do
    if is_prime(candidate) then
      ROUND[#ROUND + 1] = fraction(candidate ^ (1 / 3))
      if #START < 8 then START[#START + 1] = fraction(candidate ^ 0.5) end
    end
    candidate = candidate + 1
  end
end

local function fill_words(block, start)
  for i = 1, 16 do
    local a, b, c, d = block:byte(start + 4 * i - 4, start + 4 * i - 1)
    WORDS[i] = bor(lshift(a, 24), lshift(b, 16), lshift(c, 8), d)
  end
  for i = 17, 64 do
    local x, y = WORDS[i - 15], WORDS[i - 2]
    WORDS[i] = tobit(WORDS[i - 16] + bxor(ror(x, 7), ror(x, 18), rshift(x, 3))
      + WORDS[i - 7] + bxor(ror(y, 17), ror(y, 19), rshift(y, 10)))
  end
end

local function sha256(text)
  local bits = #text * 8
  local padded = text .. "\128" .. string.rep("\0", (55 - #text) % 64) .. "\0\0\0\0\0\0"
    .. string.char(band(rshift(bits, 8), 255), band(bits, 255))
  local h1, h2, h3, h4, h5, h6, h7, h8 = unpack(START)
  for start = 1, #padded, 64 do
    fill_words(padded, start)
    local a, b, c, d, e, f, g, h = h1, h2, h3, h4, h5, h6, h7, h8
    for i = 1, 64 do
      local t1 = tobit(h + bxor(ror(e, 6), ror(e, 11), ror(e, 25))
        + bxor(band(e, f), band(bnot(e), g)) + ROUND[i] + WORDS[i])
      local t2 = tobit(bxor(ror(a, 2), ror(a, 13), ror(a, 22))
        + bxor(band(a, b), band(a, c), band(b, c)))
      h, g, f, e, d, c, b, a = g, f, e, tobit(d + t1), c, b, a, tobit(t1 + t2)
    end
    h1, h2, h3, h4 = tobit(h1 + a), tobit(h2 + b), tobit(h3 + c), tobit(h4 + d)
    h5, h6, h7, h8 = tobit(h5 + e), tobit(h6 + f), tobit(h7 + g), tobit(h8 + h)
  end
  return tohex(h1) .. tohex(h2) .. tohex(h3) .. tohex(h4)
    .. tohex(h5) .. tohex(h6) .. tohex(h7) .. tohex(h8)
end

local function refuse(handle, status, code, title, detail, hint)
  local answer = { [":status"] = tostring(status), ["content-type"] = "application/problem+json" }
  if status == 401 then answer["www-authenticate"] = "Bearer" end
  handle:respond(answer, string.format(
    '{"type":"about:blank","title":"%s","status":%d,"detail":"%s","code":"%s","hint":"%s",'
    .. '"error":"%s"}', title, status, detail, code, hint, detail))
end

local function unknown(handle, code, detail, hint)
  refuse(handle, 401, code, "Not authenticated", detail, hint)
end

local function denied(handle, code, detail)
  refuse(handle, 403, code, "Not allowed", detail,
    "Ask those who run the model to let this caller in.")
end

local function bearer(headers)
  return (headers:get("authorization") or ""):match("^[Bb]earer%s+(%S+)%s*$")
end

-- The key that a request brings, taken away so that no model sees it.
local function take_key(headers, token)
  local key = headers:get("x-api-key")
  if key then
    headers:remove("x-api-key")
  elseif token and token:sub(1, #KEY_PREFIX) == KEY_PREFIX then
    key = token
    headers:remove("authorization")
  end
  return key
end

-- Why a token was refused, in the words of the filter that looked at it.
local function token_fault(handle)
  local found = handle:streamInfo():dynamicMetadata():get("envoy.filters.http.jwt_authn")
  local failed = found and found["failed"]
  local words = type(failed) == "table" and failed["message"] or "No issuer is known that signed it"
  return (words:gsub("[^%w%s%.,'%-]", ""))
end

-- The caller's name; nil for one who brings nothing, false when the request was answered.
local function identify(handle, headers, rules)
  local token = bearer(headers)
  local key = rules:get("key") and take_key(headers, token)
  local issuer, caller = headers:get("x-covenant-issuer"), headers:get("x-covenant-caller")
  if key then
    -- A key beside a token: the key counts, and what the token said is overwritten below.
    caller = #key <= LONGEST_KEY and KEYS[sha256(key)] or nil
    if caller == nil then
      unknown(handle, "key_refused", "The API key is unknown, expired or revoked.",
        "Ask for a new key, and send it as x-api-key.")
      return false
    end
  elseif issuer then
    if not rules:get("i:" .. issuer) then
      unknown(handle, "token_refused", "Tokens of this issuer are not taken here.",
        "Bring a token of an issuer that the access policy names.")
      return false
    elseif caller == nil or #caller > 200 or not caller:match("^[!-~]+$") then
      unknown(handle, "token_without_caller", "The token does not say who calls.",
        "Have the issuer put the caller's name into the claim that is agreed on.")
      return false
    end
  elseif token and rules:get("token") then
    unknown(handle, "token_refused", "The token is refused: " .. token_fault(handle) .. ".",
      "Fetch a new token from the issuer, and send it as Authorization: Bearer.")
    return false
  end
  if issuer then headers:remove("x-covenant-issuer") end
  return caller
end

function envoy_on_request(handle)
  local headers, rules = handle:headers(), handle:filterContext()
  local caller = identify(handle, headers, rules)
  if caller == false then return end
  if caller == nil then
    if rules:get("required") then
      unknown(handle, "authentication_required", "This model asks who calls.",
        rules:get("how") or "Send an API key as x-api-key.")
    end
    return
  end
  headers:replace("x-covenant-caller", caller)
  local model = rules:get("model")
  local allowed, refused = ALLOWED[model] or NOBODY, DENIED[model] or NOBODY
  if BLOCKED[caller] then
    denied(handle, "caller_blocked", "This caller is blocked.")
  elseif refused[caller] then
    denied(handle, "caller_denied", "This caller is on the model's deny list.")
  elseif rules:get("allow") and not allowed[caller] then
    denied(handle, "caller_not_allowed", "This caller is not on the model's allow list.")
  end
end
