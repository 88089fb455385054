#!lua name=herald_1
-- The store's server-side functions. Each runs alone on the server, so what it reads stays true while
-- it writes. All keys are named by store/keys.py and passed in; nothing here spells one.
--
-- write     judge a list of operations, give it one epoch, apply it, log it
-- delete    the same, allowed on a full server
-- report    note how far a reader of the log is
-- snapshot  note that a snapshot is published
-- trim      drop the log entries nobody needs
-- version   which source of this file is loaded
--
-- Their names begin with that of the library. Its number grows when keys or arguments change, so that
-- processes of two releases can run side by side. `DIGEST` is put in front of this code when it is
-- loaded.

local REPLY_HOURS_MS = 6 * 3600 * 1000

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Lua numbers are doubles: without this, 1e14 and more would be written with an exponent.
local function integer(number)
  return string.format('%.0f', number)
end

-- The newest epoch and its lineage; 0 and '' in a new store.
local function read_epoch(key)
  local epoch, lineage = string.match(redis.call('GET', key) or '0 ', '^(%d+) (.*)$')
  return tonumber(epoch), lineage
end

-- Idempotency ------------------------------------------------------------------------------------
-- Five hashes take turns, six hours each; the field '' of a hash says "<which six hours> <bytes>".
-- So a reply is kept for 24 to 30 hours, and forgetting costs one UNLINK and no key expiry.

local function read_turn(slot_key)
  local turn, bytes = string.match(redis.call('HGET', slot_key, '') or '-1 0', '^(%-?%d+) (%d+)$')
  return tonumber(turn), tonumber(bytes)
end

local function find_reply(slot_keys, field, turn_now)
  for _, slot_key in ipairs(slot_keys) do
    local reply = redis.call('HGET', slot_key, field)
    if reply and read_turn(slot_key) > turn_now - #slot_keys then
      return reply, slot_key
    end
  end
end

-- The slot to keep a reply in, emptied of an older turn, with the bytes it already holds.
local function take_slot(slot_keys, turn_now)
  local slot_key = slot_keys[turn_now % #slot_keys + 1]
  local turn, bytes = read_turn(slot_key)
  if turn ~= turn_now then
    redis.call('UNLINK', slot_key)
    bytes = 0
  end
  return slot_key, bytes
end

-- Write ------------------------------------------------------------------------------------------

-- What an operation meets: its status letter as in store/requests.py.
local function judge(kind, expected, current)
  if not current then
    if kind == 'p' and (expected == '' or expected == '-') then return 'c' end
    return 'a'
  end
  if expected == '-' then return 'e' end
  if expected ~= '' and expected ~= current.revision then return 'x' end
  return kind == 'd' and 'd' or 'r'
end

-- The subscription as it stands, changes of the same list included; false if there is none.
local function look_up(seen, operation)
  local place = operation.records_key .. '\n' .. operation.id
  if seen[place] == nil then
    local stored = redis.call('HGET', operation.records_key, operation.id)
    local revision, created
    if stored then revision, created = string.match(stored, '^(%d+) (%d+) ') end
    seen[place] = stored and { revision = revision, created = created }
  end
  return seen[place], place
end

local OPERATION_ARGS = 4

local function read_operations(keys, args, first)
  local operations = {}
  for at = first, #args, OPERATION_ARGS do
    local kind, bucket, records, used, expected =
      string.match(args[at], '^(%a) (%d+) (%d+) (%d+) (.*)$')
    operations[#operations + 1] = {
      kind = kind, bucket = bucket, records_key = keys[tonumber(records)],
      used_key = keys[tonumber(used)], expected = expected,
      tenant = args[at + 1], id = args[at + 2], content = args[at + 3],
    }
  end
  return operations
end

-- Judge all operations without writing: the reply's lines, the accepted ones, their log fields.
local function judge_all(operations, epoch, now)
  local seen, lines, accepted, fields, field_at = {}, {}, {}, {}, {}
  -- One change an id and epoch: a later one takes the place of an earlier one.
  local function change(place, name, value)
    local at = field_at[place] or #fields + 1
    field_at[place], fields[at], fields[at + 1] = at, name, value
  end
  for number, operation in ipairs(operations) do
    local current, place = look_up(seen, operation)
    local letter = judge(operation.kind, operation.expected, current)
    local revision = current and current.revision or '0'
    local created = current and current.created or integer(now)
    local address = operation.tenant .. '\n' .. operation.id
    if letter == 'c' or letter == 'r' then
      revision = epoch
      seen[place] = { revision = epoch, created = created }
      local age = integer(now - tonumber(created))
      operation.stored = epoch .. ' ' .. created .. ' ' .. age .. ' ' .. operation.content
      change(place, 'p' .. address, operation.stored)
    elseif letter == 'd' then
      revision = epoch
      seen[place] = false
      change(place, 'd' .. address, '')
    end
    if letter == 'c' or letter == 'r' or letter == 'd' then
      operation.letter = letter
      accepted[#accepted + 1] = operation
    end
    lines[number] = letter .. ' ' .. revision .. ' ' .. created .. ' ' .. integer(now) .. ' '
      .. operation.id
  end
  return lines, accepted, fields
end

-- Write the accepted operations into their buckets, and count them by tenant.
local function apply_all(accepted, counts_key)
  local added, touched = {}, {}
  for _, operation in ipairs(accepted) do
    if operation.letter == 'd' then
      redis.call('HDEL', operation.records_key, operation.id)
    else
      redis.call('HSET', operation.records_key, operation.id, operation.stored)
    end
    if operation.letter ~= 'r' then
      local step = operation.letter == 'c' and 1 or -1
      added[operation.tenant] = (added[operation.tenant] or 0) + step
      touched[operation.records_key] = operation
    end
  end
  for records_key, operation in pairs(touched) do
    local filled = operation.letter == 'c' and 1 or redis.call('EXISTS', records_key)
    if redis.call('GETBIT', operation.used_key, operation.bucket) ~= filled then
      redis.call('SETBIT', operation.used_key, operation.bucket, filled)
    end
  end
  for tenant, step in pairs(added) do
    if redis.call('HINCRBY', counts_key, tenant, step) == 0 then
      redis.call('HDEL', counts_key, tenant)
    end
  end
end

-- KEYS  epoch, log, counts, the idempotency slots, then each records and used key once
-- ARGV  lineage of this write, number of slots, idempotency field or '', fingerprint, slot bytes
--       allowed, then for each operation "<p or d> <bucket> <number of its records key> <number of
--       its used key> <expected>", tenant, id, content
-- Gives {outcome, reply}: 'written', 'replayed', 'mismatch' or 'full'.
local function write(keys, args)
  local now = now_ms()
  local turn_now = math.floor(now / REPLY_HOURS_MS)
  local slot_keys = { unpack(keys, 4, 3 + tonumber(args[2])) }
  local field, fingerprint = args[3], args[4]
  if field ~= '' then
    local known, slot_key = find_reply(slot_keys, field, turn_now)
    if known then
      local first_fingerprint, reply = string.match(known, '^([^\n]*)\n(.*)$')
      if first_fingerprint ~= fingerprint then return { 'mismatch', '' } end
      -- A write that changes nothing: so the caller's WAITAOF waits for the first one as well.
      redis.call('HSET', slot_key, field, known)
      return { 'replayed', reply }
    end
  end

  local newest, lineage_before = read_epoch(keys[1])
  local epoch = integer(newest + 1)
  local operations = read_operations(keys, args, 6)
  local lines, accepted, fields = judge_all(operations, epoch, now)
  if #accepted == 0 then
    return { 'written', integer(newest) .. '\n' .. table.concat(lines, '\n') }
  end
  local reply = epoch .. '\n' .. table.concat(lines, '\n')

  local slot_key, bytes
  if field ~= '' then
    slot_key, bytes = take_slot(slot_keys, turn_now)
    bytes = bytes + #field + #fingerprint + #reply
    if bytes > tonumber(args[5]) then return { 'full', '' } end
  end
  -- First what can fail: the log refuses an epoch that it already has.
  redis.call('XADD', keys[2], epoch .. '-0', 'l', args[1], 'f', lineage_before, unpack(fields))
  redis.call('SET', keys[1], epoch .. ' ' .. args[1])
  if field ~= '' then
    redis.call('HSET', slot_key, field, fingerprint .. '\n' .. reply,
      '', integer(turn_now) .. ' ' .. integer(bytes))
  end
  apply_all(accepted, keys[3])
  return { 'written', reply }
end

-- Readers and the log's end ----------------------------------------------------------------------

-- KEYS readers; ARGV name, epoch, oldest epoch, milliseconds valid
local function report(keys, args)
  local value = args[2] .. ' ' .. args[3] .. ' ' .. integer(now_ms()) .. ' ' .. args[4]
  return redis.call('HSET', keys[1], args[1], value)
end

-- KEYS snapshots; ARGV epoch of a published snapshot, how many of the newest to keep
local function snapshot(keys, args)
  redis.call('ZADD', keys[1], args[1], args[1])
  return redis.call('ZREMRANGEBYRANK', keys[1], 0, -tonumber(args[2]) - 1)
end

-- The oldest epoch a live reader still starts from, at most `floor`; forgets readers long gone.
local function oldest_needed(readers_key, floor, now, forget_after_ms)
  local readers = redis.call('HGETALL', readers_key)
  for at = 1, #readers, 2 do
    local oldest, seen, valid = string.match(readers[at + 1], '^%d+ (%d+) (%d+) (%d+)$')
    local age = now - tonumber(seen)
    if age < tonumber(valid) then
      floor = math.min(floor, tonumber(oldest))
    elseif age > forget_after_ms then
      redis.call('HDEL', readers_key, readers[at])
    end
  end
  return floor
end

-- KEYS epoch, log, readers, snapshots; ARGV milliseconds after which a silent reader is forgotten
-- Gives {epoch at and below which entries may be gone, entries dropped now}.
local function trim(keys, args)
  local newest = read_epoch(keys[1])
  -- After a failover that lost its tail, snapshots of lost epochs may not count.
  redis.call('ZREMRANGEBYSCORE', keys[4], '(' .. integer(newest), '+inf')
  local oldest = redis.call('ZRANGE', keys[4], 0, 0)[1]
  if not oldest then return { '0', 0 } end
  local floor = oldest_needed(keys[3], tonumber(oldest), now_ms(), tonumber(args[1]))
  return { integer(floor), redis.call('XTRIM', keys[2], 'MINID', integer(floor + 1) .. '-0') }
end

local function version()
  return DIGEST
end

local function register(name, callback, flags)
  redis.register_function{ function_name = 'herald_1_' .. name, callback = callback, flags = flags }
end

register('write', write, {})
-- For lists of deletions alone, which a full server must still take, or it could never be emptied.
register('delete', write, { 'allow-oom' })
register('report', report, { 'allow-oom' })
register('snapshot', snapshot, { 'allow-oom' })
register('trim', trim, { 'allow-oom' })
register('version', version, { 'no-writes' })
