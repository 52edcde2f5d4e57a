-- What follows reads frames by these tables. Wireshark 3.6 or later; Lua 5.1 to 5.4.

local FRAME_MAX = 64 * 1024 * 1024 + 10240
local COMMAND_MAX = 5 * 1024 * 1024
local DEPTH_MAX = 16
local BATCH_MAX = 100000

local pulsar = Proto("pulsar", "Apache Pulsar")
pulsar.prefs.verify = Pref.bool("Verify checksums", true, "Compute the CRC32-C of each SEND and MESSAGE")
pulsar.prefs.search = Pref.bool("Search for frames after loss", true, "Find the next frame by content where the capture lacks bytes")

local VARINTS = {uint64 = true, int64 = true, uint32 = true, int32 = true, bool = true, enum = true}
local MAKERS = {
  uint64 = ProtoField.uint64, int64 = ProtoField.int64, uint32 = ProtoField.uint32, int32 = ProtoField.int32,
  bool = ProtoField.bool, string = ProtoField.string, bytes = ProtoField.bytes, double = ProtoField.double,
}
local CHECKSUMS = {good = "good", bad = "bad", absent = "absent", unverified = "unverified"}

-- Fields, by path -------------------------------------------------------------------------------------------------

local fields, list = {}, {}

local function register(path, field)
  fields[path] = field
  list[#list + 1] = field
end

local function register_message(message, path, above)
  for _, field in pairs(messages[message]) do
    local name, kind, inner = field[1], field[2], field[3]
    local at = path .. "." .. name
    if kind == "message" then
      register(at, ProtoField.none(at, name))
      if not above[inner] then
        above[inner] = true
        register_message(inner, at, above)
        above[inner] = nil
      end
    elseif kind == "enum" then
      register(at, ProtoField.uint32(at, name, base.DEC, enums[inner]))
    else
      register(at, MAKERS[kind](at, name))
    end
  end
end

register("pulsar.size", ProtoField.uint32("pulsar.size", "Size"))
register("pulsar.command_size", ProtoField.uint32("pulsar.command_size", "Command size"))
register("pulsar.command", ProtoField.uint32("pulsar.command", "Command", base.DEC, enums["BaseCommand.Type"]))
register("pulsar.checksum", ProtoField.uint32("pulsar.checksum", "Checksum", base.HEX))
register("pulsar.checksum.status", ProtoField.string("pulsar.checksum.status", "Checksum status"))
register("pulsar.checksum.computed", ProtoField.uint32("pulsar.checksum.computed", "Computed checksum", base.HEX))
register("pulsar.payload", ProtoField.bytes("pulsar.payload", "Payload"))
register("pulsar.payload_size", ProtoField.uint32("pulsar.payload_size", "Payload size"))
register("pulsar.unknown", ProtoField.bytes("pulsar.unknown", "Unknown field"))
register("pulsar.skipped", ProtoField.bytes("pulsar.skipped", "Bytes of no known frame"))
register("pulsar.message", ProtoField.none("pulsar.message", "Message"))
register("pulsar.message.batch_index", ProtoField.uint32("pulsar.message.batch_index", "Batch index"))
register("pulsar.message.payload", ProtoField.bytes("pulsar.message.payload", "Payload"))
register_message("BaseCommand", "pulsar", {BaseCommand = true})
register("pulsar.broker_entry_metadata", ProtoField.none("pulsar.broker_entry_metadata", "Broker entry metadata"))
register_message("BrokerEntryMetadata", "pulsar.broker_entry_metadata", {})
register("pulsar.metadata", ProtoField.none("pulsar.metadata", "Metadata"))
register_message("MessageMetadata", "pulsar.metadata", {})
register_message("SingleMessageMetadata", "pulsar.message", {})
pulsar.fields = list

local bad_checksum = ProtoExpert.new("pulsar.checksum.bad", "The checksum does not fit", expert.group.CHECKSUM, expert.severity.ERROR)
local malformed = ProtoExpert.new("pulsar.malformed", "The frame is damaged", expert.group.MALFORMED, expert.severity.ERROR)
pulsar.experts = {bad_checksum, malformed}

-- CRC32-C (RFC 3720, appendix B.4) --------------------------------------------------------------------------------

local exclusive_or, shifted
if bit32 then
  exclusive_or, shifted = bit32.bxor, bit32.rshift
elseif bit then
  exclusive_or, shifted = bit.bxor, bit.rshift
else
  exclusive_or = load("return function(a, b) return a ~ b end")()
  shifted = load("return function(a, n) return a >> n end")()
end

local crc_table = {}
for byte = 0, 255 do
  local value = byte
  for _ = 1, 8 do
    value = value % 2 == 1 and exclusive_or(shifted(value, 1), 0x82F63B78) or shifted(value, 1)
  end
  crc_table[byte] = value
end

local function crc32c(data, first, last)
  local value = 0xFFFFFFFF
  for start = first, last, 4096 do
    local bytes = {data:byte(start, math.min(start + 4095, last))}
    for at = 1, #bytes do
      value = exclusive_or(shifted(value, 8), crc_table[exclusive_or(value, bytes[at]) % 256])
    end
  end
  return exclusive_or(value, 0xFFFFFFFF) % 0x100000000
end

-- Protobuf --------------------------------------------------------------------------------------------------------
-- Positions count from 1, as in strings of Lua; `stop` is behind the last byte.

local function u32(data, at)
  local a, b, c, d = data:byte(at, at + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- Low and high 32 bits of a varint, and the position behind it; nil when it does not end before `stop`.
local function varint(data, at, stop)
  local low, high, factor = 0, 0, 1
  for group = 0, 9 do
    if at >= stop then return nil end
    local byte = data:byte(at)
    local bits = byte % 128
    at = at + 1
    if group < 4 then
      low = low + bits * factor
    elseif group == 4 then
      low = low + bits % 16 * 0x10000000
      high = math.floor(bits / 16)
      factor = 1 / 16
    else
      high = high + (group == 9 and bits % 2 or bits) * factor
    end
    factor = factor * 128
    if byte < 128 then return low, math.floor(high), at end
  end
  return nil
end

local function number_of(kind, low, high)
  if kind == "uint64" then return UInt64.new(low, high) end
  if kind == "int64" then return Int64.new(low, high) end
  if kind == "bool" then return low ~= 0 or high ~= 0 end
  if kind == "int32" and low >= 0x80000000 then return low - 0x100000000 end
  return low
end

-- A view of the bytes of a frame: `data` is a string, `tvb` the same bytes for the tree.
local function range(view, at, stop)
  return view.tvb(at - 1, stop - at)
end

-- A message within itself has fields at one level only.
local function field_of(path)
  return fields[path] or fields["pulsar.unknown"]
end

local function add_number(tree, path, bytes, kind, low, high)
  if path == "pulsar.type" then
    return -- pulsar.command, which stands before
  elseif fields[path] then
    tree:add(fields[path], bytes, number_of(kind, low, high))
  else
    tree:add(fields["pulsar.unknown"], bytes)
  end
end

-- Add the fields of a message to a tree, or, without a tree, check it strictly: known fields, each with its own wire type, all required
-- ones. Returns whether it could be read, and the numbers found in it: value of the last varint, position of the last other one.
local function walk(view, at, stop, message, path, tree, depth)
  local known, found = messages[message], {}
  local data = view.data
  while at < stop do
    local start = at
    local tag, over
    tag, over, at = varint(data, at, stop)
    if not tag or over ~= 0 or tag < 8 then return false, found end
    local number, wire = math.floor(tag / 8), tag % 8
    local field = known[number]
    local kind = field and field[2]
    local at_path = field and path .. "." .. field[1]
    if wire == 0 then
      local low, high
      low, high, at = varint(data, at, stop)
      if not low then return false, found end
      if VARINTS[kind] then
        found[number] = low
        if tree then add_number(tree, at_path, range(view, start, at), kind, low, high) end
      elseif tree then
        tree:add(fields["pulsar.unknown"], range(view, start, at))
      else
        return false, found
      end
    elseif wire == 2 then
      local size, large, content = varint(data, at, stop)
      if not size or large ~= 0 or size > stop - content then return false, found end
      at = content + size
      found[number] = content
      if kind == "message" and depth < DEPTH_MAX then
        local inner = tree and tree:add(field_of(at_path), range(view, start, at))
        if not walk(view, content, at, field[3], at_path, inner, depth + 1) then return false, found end
      elseif kind == "string" or kind == "bytes" then
        if tree then tree:add(field_of(at_path), range(view, content, at)) end
      elseif VARINTS[kind] and field[4] then -- packed
        while content < at do
          local low, high, behind = varint(data, content, at)
          if not low then return false, found end
          if tree then add_number(tree, at_path, range(view, content, behind), kind, low, high) end
          content = behind
        end
      elseif tree then
        tree:add(fields["pulsar.unknown"], range(view, start, at))
      else
        return false, found
      end
    elseif wire == 1 or wire == 5 then
      local size = wire == 1 and 8 or 4
      if stop - at < size then return false, found end
      at = at + size
      found[number] = start
      if kind == "double" and wire == 1 then
        if tree then tree:add_le(field_of(at_path), range(view, at - 8, at)) end
      elseif tree then
        tree:add(fields["pulsar.unknown"], range(view, start, at))
      else
        return false, found
      end
    else
      return false, found
    end
  end
  if not tree then
    for number, field in pairs(known) do
      if field[5] and found[number] == nil then return false, found end
    end
  end
  return true, found
end

-- Frames ----------------------------------------------------------------------------------------------------------

local OPENING_MAX = 65536

local function command_name(kind)
  return enums["BaseCommand.Type"][kind] or "UNKNOWN_" .. kind
end

-- Sizes of the frame at a position, when its first ten bytes may begin one: size, position behind its command, type, which may be one that
-- is not known on a connection that is.
local function head(data, at, any_type)
  local total, command = u32(data, at), u32(data, at + 4)
  local kind = data:byte(at + 9)
  if total > FRAME_MAX or command > COMMAND_MAX or command < 2 or command + 4 > total then return nil end
  if data:byte(at + 8) ~= 8 or not (enums["BaseCommand.Type"][kind] or any_type and kind > 0 and kind < 128) then return nil end
  return total + 4, at + 8 + command, kind
end

-- Whether the command of the frame at a position is one beyond doubt; nil when its bytes are not all there.
local function strict(data, at)
  if #data - at + 1 < 10 then return nil end
  local size, command_stop, kind = head(data, at)
  if not size then return false end
  local name = enums["BaseCommand.Type"][kind]
  local carries = name == "SEND" or name == "MESSAGE"
  if not carries and command_stop ~= at + size then return false end
  if command_stop - 1 > #data then return nil end
  local read, found = walk({data = data}, at + 8, command_stop, "BaseCommand", "", nil, 0)
  if not read or not found[kind] then return false end
  for number in pairs(found) do
    if number ~= 1 and number ~= kind then return false end
  end
  return true, size, name
end

local function add_batch(view, at, stop, count, tree)
  for index = 0, math.min(count, BATCH_MAX) - 1 do
    if stop - at < 4 then return false end
    local metadata_stop = at + 4 + u32(view.data, at)
    if metadata_stop > stop then return false end
    local read, found = walk(view, at + 4, metadata_stop, "SingleMessageMetadata", "", nil, 0)
    local size = found[single_payload_size]
    if not read or not size or size > stop - metadata_stop then return false end
    local item = tree:add(fields["pulsar.message"], range(view, at, metadata_stop + size)):append_text(" " .. index)
    item:add(fields["pulsar.message.batch_index"], range(view, at, at + 4), index)
    walk(view, at + 4, metadata_stop, "SingleMessageMetadata", "pulsar.message", item, 0)
    if size > 0 then item:add(fields["pulsar.message.payload"], range(view, metadata_stop, metadata_stop + size)) end
    at = metadata_stop + size
  end
  return true
end

local DECOMPRESSORS = {ZLIB = {"uncompress_zlib", "uncompress"}, ZSTD = {"uncompress_zstd"}, SNAPPY = {"uncompress_snappy"}}

-- The bytes of a payload as its producer gave them; nil when they cannot be had here.
local function opened(view, at, stop, compression)
  if compression == nil or compression == 0 then return view, at, stop end
  local whole = range(view, at, stop)
  for _, name in ipairs(DECOMPRESSORS[enums.CompressionType[compression]] or {}) do
    local done, inner = pcall(function() return whole[name](whole, "Decompressed payload") end)
    if done and inner and inner:len() > 0 then
      return {data = inner:raw(), tvb = inner}, 1, inner:len() + 1
    end
  end
  return nil
end

-- Add what stands behind the command of SEND or MESSAGE. Returns whether it could be read.
local function add_payload(view, at, stop, complete, tree)
  local data = view.data
  local last = math.min(stop, #data + 1)
  if last - at >= 6 and data:byte(at) == 0x0e and data:byte(at + 1) == 0x02 then
    local inner_stop = at + 6 + u32(data, at + 2)
    if inner_stop > last then return not complete end
    local item = tree:add(fields["pulsar.broker_entry_metadata"], range(view, at, inner_stop))
    if not walk(view, at + 6, inner_stop, "BrokerEntryMetadata", "pulsar.broker_entry_metadata", item, 0) then return false end
    at = inner_stop
  end
  local status = complete and "absent" or "unverified"
  if last - at >= 10 and data:byte(at) == 0x0e and data:byte(at + 1) == 0x01 then
    local stored = u32(data, at + 2)
    local item = tree:add(fields["pulsar.checksum"], range(view, at + 2, at + 6), stored)
    status = "unverified"
    if complete and pulsar.prefs.verify then
      local computed = crc32c(data, at + 6, stop - 1)
      status = computed == stored and "good" or "bad"
      if status == "bad" then
        item:add(fields["pulsar.checksum.computed"], computed):set_generated()
        item:add_proto_expert_info(bad_checksum)
      end
    end
    at = at + 6
  end
  tree:add(fields["pulsar.checksum.status"], CHECKSUMS[status]):set_generated()
  if last - at < 4 then return not complete end
  local metadata_stop = at + 4 + u32(data, at)
  if metadata_stop > last then return not complete and metadata_stop <= stop end
  local item = tree:add(fields["pulsar.metadata"], range(view, at, metadata_stop))
  local read, found = walk(view, at + 4, metadata_stop, "MessageMetadata", "pulsar.metadata", item, 0)
  if not read then return false end
  tree:add(fields["pulsar.payload_size"], stop - metadata_stop):set_generated()
  if metadata_stop >= last then return true end
  local payload = tree:add(fields["pulsar.payload"], range(view, metadata_stop, last))
  local count = found[metadata_numbers.num_messages_in_batch]
  if complete and count and not found[metadata_numbers.encryption_keys] then
    local inner, inner_at, inner_stop = opened(view, metadata_stop, stop, found[metadata_numbers.compression])
    if inner then return add_batch(inner, inner_at, inner_stop, count, payload) end
  end
  return true
end

-- Add the frame in a view, whose bytes may end before it does. Returns the name of its command.
local function add_frame(view, size, command_stop, kind, tree)
  local name = command_name(kind)
  local data = view.data
  local last = math.min(size + 1, #data + 1)
  local complete = last == size + 1
  local item = tree:add(pulsar, range(view, 1, last), "Apache Pulsar, " .. name)
  item:add(fields["pulsar.size"], range(view, 1, 5))
  item:add(fields["pulsar.command_size"], range(view, 5, 9))
  item:add(fields["pulsar.command"], range(view, 10, 11), kind)
  local read = true
  if command_stop <= last then
    read = walk(view, 9, command_stop, "BaseCommand", "pulsar", item, 0)
    if name == "SEND" or name == "MESSAGE" then
      if command_stop < size + 1 then read = add_payload(view, command_stop, size + 1, complete, item) and read end
    end
  end
  if not read then item:add_proto_expert_info(malformed) end
  if not complete then item:append_text(" [cut by the capture]") end
  return name
end

-- Length of a header of the PROXY protocol at the start of a connection.
local function proxy_header(data)
  if data:sub(1, 6) == "PROXY " then
    local _, stop = data:find("\r\n", 1, true)
    return stop and stop <= 107 and stop or 0
  end
  if data:sub(1, 12) == "\r\n\r\n\0\r\nQUIT\n" and #data >= 16 then
    local a, b = data:byte(15, 16)
    return 16 + a * 256 + b
  end
  return 0
end

local function next_candidate(data, at)
  while true do
    at = data:find("[%z\1-\4]...%z[%z\1-\79]..\8[\2-" .. string.char(last_type) .. "]", at)
    if not at then return nil end
    if strict(data, at) then return at end
    at = at + 1
  end
end

local function dissect(tvb, pinfo, tree)
  local data = tvb:raw()
  local cut = tvb:reported_len() > #data
  local at = proxy_header(data) + 1
  local names = {}
  while at <= #data do
    local left = #data - at + 1
    local size, command_stop, kind
    if left >= 10 then size, command_stop, kind = head(data, at, true) end
    if left >= 10 and not size then
      local next_at = pulsar.prefs.search and next_candidate(data, at + 1)
      local stop = next_at or #data + 1
      tree:add(pulsar, tvb(at - 1, stop - at), "Apache Pulsar, bytes of no known frame"):add(fields["pulsar.skipped"], tvb(at - 1, stop - at))
      at = stop
    elseif (left < 10 or left < size) and not cut and pinfo.can_desegment > 0 then
      pinfo.desegment_offset = at - 1
      pinfo.desegment_len = left < 10 and DESEGMENT_ONE_MORE_SEGMENT or size - left
      break
    elseif left < 10 then
      break
    else
      local stop = math.min(at + size, #data + 1)
      local view = {data = data:sub(at, stop - 1), tvb = tvb(at - 1, stop - at):tvb()}
      names[#names + 1] = add_frame(view, size, command_stop - at + 1, kind, tree)
      at = stop
    end
  end
  if #names > 0 then
    pinfo.cols.protocol = "PULSAR"
    pinfo.cols.info = table.concat(names, ", ", 1, math.min(#names, 20)) .. (#names > 20 and ", …" or "")
  end
  return tvb:len()
end

function pulsar.dissector(tvb, pinfo, tree)
  return dissect(tvb, pinfo, tree)
end

-- Recognition by content: nothing is claimed by its port alone ------------------------------------------------------

local known = {} -- connections, by both ends in one order

function pulsar.init()
  known = {}
end

local function connection_of(pinfo)
  local a, b = tostring(pinfo.src) .. " " .. pinfo.src_port, tostring(pinfo.dst) .. " " .. pinfo.dst_port
  return a < b and a .. " " .. b or b .. " " .. a
end

local function recognised(tvb, pinfo)
  local data = tvb:raw(0, math.min(tvb:len(), COMMAND_MAX))
  local at = proxy_header(data) + 1
  if at > 1 and at > #data then return false end
  local sure, size, name = strict(data, at)
  if not sure then return false end
  if name == "CONNECT" or name == "CONNECTED" or pinfo.src_port == 6650 or pinfo.dst_port == 6650 then return true end
  local following = strict(data, at + size)
  if following ~= nil then return following end
  if name ~= "SEND" and name ~= "MESSAGE" then return false end
  local command_stop = at + 8 + u32(data, at + 4)
  local magic = data:sub(command_stop, command_stop + 1)
  return magic == "\14\1" or magic == "\14\2"
end

-- Whether these bytes begin a CONNECT or CONNECTED that goes on: credentials may be long. Nothing is claimed until it is whole.
local function begins_opening(tvb)
  local data = tvb:raw(0, 10)
  local size, command_stop, kind = head(data, 1)
  if not size or command_stop ~= size + 1 or size > OPENING_MAX or size <= tvb:len() then return nil end
  local name = command_name(kind)
  return (name == "CONNECT" or name == "CONNECTED") and size - tvb:len() or nil
end

local function heuristic(tvb, pinfo, tree, sets_conversation)
  local connection = connection_of(pinfo)
  if not known[connection] then
    if tvb:len() < 10 then return false end
    local missing = pinfo.can_desegment > 0 and begins_opening(tvb)
    if missing then
      pinfo.desegment_offset = 0
      pinfo.desegment_len = missing
      return true
    end
    if not recognised(tvb, pinfo) then return false end
    known[connection] = true
    if sets_conversation then pinfo.conversation = pulsar end
  end
  dissect(tvb, pinfo, tree)
  return true
end

pulsar:register_heuristic("tcp", function(tvb, pinfo, tree) return heuristic(tvb, pinfo, tree, true) end)
pcall(function()
  pulsar:register_heuristic("tls", function(tvb, pinfo, tree) return heuristic(tvb, pinfo, tree, false) end)
end)
DissectorTable.get("tcp.port"):add_for_decode_as(pulsar)
