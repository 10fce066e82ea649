package main

// A script, and what it does.
type script struct {
	source string
	keys   int
	args   int
	// Only where the whole keyspace is modelled.
	whole bool
	run   func(s *state, base int, c command) reply
}

var scripts = map[string]script{
	"EVAL-RENAME": {
		source: `if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[2]) return 1 end return 0`,
		keys:   2,
		run: func(s *state, _ int, c command) reply {
			if s[c.keys[0]] == "" {
				return number(0)
			}
			s[c.keys[1]], s[c.keys[0]] = s[c.keys[0]], ""
			return number(1)
		},
	},
	"EVAL-SWAP": {
		source: `local a = redis.call('GET', KEYS[1]) local b = redis.call('GET', KEYS[2])
			if a and b then redis.call('MSET', KEYS[1], b, KEYS[2], a) return 1 end return 0`,
		keys: 2,
		run: func(s *state, _ int, c command) reply {
			a, b := c.keys[0], c.keys[1]
			if !s.is(a, typeString) || !s.is(b, typeString) {
				return wrongType
			}
			if s[a] == "" || s[b] == "" {
				return number(0)
			}
			s[a], s[b] = s[b], s[a]
			return number(1)
		},
	},
	"EVAL-BOTH": {
		source: `redis.call('DEL', KEYS[1], KEYS[2]) redis.call('RPUSH', KEYS[1], ARGV[1])
			redis.call('RPUSH', KEYS[2], ARGV[1], ARGV[1]) return redis.call('LLEN', KEYS[2])`,
		keys: 2, args: 1,
		run: func(s *state, _ int, c command) reply {
			s.remove(c.keys)
			s.push(c.keys[0], false, c.args)
			return s.push(c.keys[1], false, []string{c.args[0], c.args[0]})
		},
	},
	"EVAL-SIZE": {
		source: `redis.call('DEL', KEYS[1]) local n = redis.call('DBSIZE')
			redis.call('SET', KEYS[1], ARGV[1]) return n`,
		keys: 1, args: 1, whole: true,
		run: func(s *state, base int, c command) reply {
			s[c.keys[0]] = ""
			n := s.size(base)
			s.set(c.keys[0], c.args[0])
			return number(n)
		},
	},
}

func init() {
	for name, one := range scripts {
		exacts[name] = one.run
	}
}
