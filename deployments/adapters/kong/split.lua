-- Divides an endpoint's requests among its versions: by the caller's hash where the header is there,
-- by chance where it is not. Each piece is {basis points, upstream, path, version}.
local HEADER = $HEADER
local PIECES = $PIECES
local HEAVIEST = $HEAVIEST

return function()
  local caller = kong.request.get_header(HEADER)
  local point = caller and ngx.crc32_long(caller) % 10000 or math.random(0, 9999)
  local chosen, edge = PIECES[#PIECES], 0
  for _, piece in ipairs(PIECES) do
    edge = edge + piece[1]
    if point < edge then
      chosen = piece
      break
    end
  end
  if not kong.service.set_upstream(chosen[2]) then
    -- A worker that does not know it yet: the service's own version, the heaviest one, answers.
    return kong.response.set_header("X-Model-Version", HEAVIEST)
  end
  kong.service.request.set_path(chosen[3])
  kong.response.set_header("X-Model-Version", chosen[4])
end
