-- KEYS: quota, reservations, expirations. ARGV: uid.
local held = redis.call('HGET', KEYS[2], ARGV[1])
if not held then
  return 0
end
local pods, cpu, memory = string.match(held, '(%d+) (%d+) (%d+)')
local used = redis.call('HMGET', KEYS[1], 'usedPods', 'usedCpu', 'usedMemory')
redis.call('HSET', KEYS[1], 'usedPods', used[1] - pods, 'usedCpu', used[2] - cpu, 'usedMemory', used[3] - memory)
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1
