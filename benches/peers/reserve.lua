-- KEYS: quota, reservations, expirations. ARGV: uid, pods, cpu, memory, seconds.
local time = redis.call('TIME')
local now = tonumber(time[1])
local used = redis.call('HMGET', KEYS[1], 'usedPods', 'usedCpu', 'usedMemory', 'hardPods', 'hardCpu', 'hardMemory')
local pods, cpu, memory = tonumber(used[1]), tonumber(used[2]), tonumber(used[3])
for _, uid in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 16)) do
  local p, c, m = string.match(redis.call('HGET', KEYS[2], uid), '(%d+) (%d+) (%d+)')
  pods, cpu, memory = pods - p, cpu - c, memory - m
  redis.call('HDEL', KEYS[2], uid)
  redis.call('ZREM', KEYS[3], uid)
  redis.call('HSET', KEYS[1], 'usedPods', pods, 'usedCpu', cpu, 'usedMemory', memory)
end
pods, cpu, memory = pods + ARGV[2], cpu + ARGV[3], memory + ARGV[4]
if pods > tonumber(used[4]) or cpu > tonumber(used[5]) or memory > tonumber(used[6]) then
  return 0
end
if redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4]) == 0 then
  return 2
end
redis.call('HSET', KEYS[1], 'usedPods', pods, 'usedCpu', cpu, 'usedMemory', memory)
redis.call('ZADD', KEYS[3], now + ARGV[5], ARGV[1])
return 1
