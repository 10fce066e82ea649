package main

import (
	"slices"
	"strconv"
)

// unordered commands reply with a set.
var unordered = map[string]bool{"SMEMBERS": true, "HGETALL": true, "KEYS": true}

// exacts are commands with one possible reply in each state.
var exacts = map[string]func(s *state, base int, c command) reply{
	"GET": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeString) {
			return wrongType
		}
		return s.text(c.keys[0])
	},
	"SET": func(s *state, _ int, c command) reply {
		s.set(c.keys[0], c.args[0])
		return ok()
	},
	"SETNX": func(s *state, _ int, c command) reply {
		if s[c.keys[0]] != "" {
			return number(0)
		}
		s.set(c.keys[0], c.args[0])
		return number(1)
	},
	"GETSET": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeString) {
			return wrongType
		}
		old := s.text(c.keys[0])
		s.set(c.keys[0], c.args[0])
		return old
	},
	"GETDEL": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeString) {
			return wrongType
		}
		old := s.text(c.keys[0])
		s[c.keys[0]] = ""
		return old
	},
	"INCR": func(s *state, _ int, c command) reply { return s.add(c.keys[0], 1) },
	"INCRBY": func(s *state, _ int, c command) reply {
		by, _ := integer(c.args[0])
		return s.add(c.keys[0], by)
	},
	"APPEND": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeString) {
			return wrongType
		}
		s.set(c.keys[0], s.text(c.keys[0]).text+c.args[0])
		return number(len(s[c.keys[0]]) - 1)
	},
	"STRLEN": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeString) {
			return wrongType
		}
		return number(len(s.text(c.keys[0]).text))
	},
	"MSET": func(s *state, _ int, c command) reply {
		for i, key := range c.keys {
			s.set(key, c.args[i])
		}
		return ok()
	},
	"MSETNX": func(s *state, _ int, c command) reply {
		for _, key := range c.keys {
			if s[key] != "" {
				return number(0)
			}
		}
		for i, key := range c.keys {
			s.set(key, c.args[i])
		}
		return number(1)
	},
	"MGET": func(s *state, _ int, c command) reply {
		items := make([]reply, len(c.keys))
		for i, key := range c.keys {
			items[i] = null()
			if s.is(key, typeString) {
				items[i] = s.text(key)
			}
		}
		return reply{kind: '*', items: items}
	},
	"DEL":    func(s *state, _ int, c command) reply { return s.remove(c.keys) },
	"UNLINK": func(s *state, _ int, c command) reply { return s.remove(c.keys) },
	"EXISTS": func(s *state, _ int, c command) reply {
		count := 0
		for _, key := range c.keys {
			if s[key] != "" {
				count++
			}
		}
		return number(count)
	},
	"TYPE": func(s *state, _ int, c command) reply {
		name := "none"
		if s[c.keys[0]] != "" {
			name = map[byte]string{typeString: "string", typeList: "list", typeHash: "hash", typeSet: "set"}[s[c.keys[0]][0]]
		}
		return reply{kind: '+', text: name}
	},
	"RENAME": func(s *state, _ int, c command) reply {
		if s[c.keys[0]] == "" {
			return failed("ERR")
		}
		s[c.keys[1]], s[c.keys[0]] = s[c.keys[0]], ""
		return ok()
	},
	"RENAMENX": func(s *state, _ int, c command) reply {
		if s[c.keys[0]] == "" {
			return failed("ERR")
		}
		if s[c.keys[1]] != "" {
			return number(0)
		}
		s[c.keys[1]], s[c.keys[0]] = s[c.keys[0]], ""
		return number(1)
	},
	"COPY": func(s *state, _ int, c command) reply {
		if s[c.keys[0]] == "" || s[c.keys[1]] != "" && !slices.Contains(c.args, "REPLACE") {
			return number(0)
		}
		s[c.keys[1]] = s[c.keys[0]]
		return number(1)
	},
	"MOVE": func(s *state, base int, c command) reply {
		from, to := c.keys[0], c.keys[0]-base+(keysInBase-base)
		if s[from] == "" || s[to] != "" {
			return number(0)
		}
		s[to], s[from] = s[from], ""
		return number(1)
	},
	"LPUSH":  func(s *state, _ int, c command) reply { return s.push(c.keys[0], true, c.args) },
	"RPUSH":  func(s *state, _ int, c command) reply { return s.push(c.keys[0], false, c.args) },
	"LPOP":   func(s *state, _ int, c command) reply { return s.pop(c.keys[0], true) },
	"RPOP":   func(s *state, _ int, c command) reply { return s.pop(c.keys[0], false) },
	"LLEN":   func(s *state, _ int, c command) reply { return s.count(c.keys[0], typeList) },
	"LRANGE": func(s *state, _ int, c command) reply { return s.all(c.keys[0], typeList) },
	"LMOVE": func(s *state, _ int, c command) reply {
		if s[c.keys[0]] == "" {
			return null()
		}
		return s.moveElement(c)
	},
	"HSET": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeHash) {
			return wrongType
		}
		fields := s.fields(c.keys[0])
		_, was := fields[c.args[0]]
		fields[c.args[0]] = c.args[1]
		s.setFields(c.keys[0], fields)
		return truth(!was)
	},
	"HGET": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeHash) {
			return wrongType
		}
		if value, is := s.fields(c.keys[0])[c.args[0]]; is {
			return bulk(value)
		}
		return null()
	},
	"HDEL": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeHash) {
			return wrongType
		}
		fields := s.fields(c.keys[0])
		_, was := fields[c.args[0]]
		delete(fields, c.args[0])
		s.setFields(c.keys[0], fields)
		return truth(was)
	},
	"HINCRBY": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeHash) {
			return wrongType
		}
		fields := s.fields(c.keys[0])
		value, is := fields[c.args[0]]
		n, isNumber := integer(value)
		if is && !isNumber {
			return failed("ERR")
		}
		by, _ := integer(c.args[1])
		fields[c.args[0]] = strconv.Itoa(n + by)
		s.setFields(c.keys[0], fields)
		return number(n + by)
	},
	"HGETALL": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeHash) {
			return wrongType
		}
		var texts []string
		for field, value := range s.fields(c.keys[0]) {
			texts = append(texts, field, value)
		}
		return bulks(texts)
	},
	"SADD": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeSet) {
			return wrongType
		}
		members := s.parts(c.keys[0])
		if slices.Contains(members, c.args[0]) {
			return number(0)
		}
		s.setParts(c.keys[0], typeSet, append(members, c.args[0]))
		return number(1)
	},
	"SREM": func(s *state, _ int, c command) reply {
		if !s.is(c.keys[0], typeSet) {
			return wrongType
		}
		return truth(s.removeMember(c.keys[0], c.args[0]))
	},
	"SCARD":    func(s *state, _ int, c command) reply { return s.count(c.keys[0], typeSet) },
	"SMEMBERS": func(s *state, _ int, c command) reply { return s.all(c.keys[0], typeSet) },
	"SMOVE": func(s *state, _ int, c command) reply {
		from, to := c.keys[0], c.keys[1]
		if s[from] == "" {
			return number(0)
		}
		if !s.is(from, typeSet) || !s.is(to, typeSet) {
			return wrongType
		}
		if !s.removeMember(from, c.args[0]) {
			return number(0)
		}
		if members := s.parts(to); !slices.Contains(members, c.args[0]) {
			s.setParts(to, typeSet, append(members, c.args[0]))
		}
		return number(1)
	},
	"SUNIONSTORE": func(s *state, _ int, c command) reply {
		var all []string
		for _, key := range c.keys[1:] {
			if !s.is(key, typeSet) {
				return wrongType
			}
			all = append(all, s.parts(key)...)
		}
		slices.Sort(all)
		all = slices.Compact(all)
		s.setParts(c.keys[0], typeSet, all)
		return number(len(all))
	},
	"DBSIZE": func(s *state, base int, _ command) reply { return number(s.size(base)) },
	"FLUSHDB": func(s *state, base int, _ command) reply {
		clear(s[base : base+keysInBase])
		return ok()
	},
	"FLUSHALL": func(s *state, _ int, _ command) reply {
		*s = state{}
		return ok()
	},
	"SWAPDB": func(s *state, _ int, _ command) reply {
		for key := range keysInBase {
			s[key], s[key+keysInBase] = s[key+keysInBase], s[key]
		}
		return ok()
	},
}

// loose are commands with more than one possible reply.
var loose = map[string]func(s *state, base int, c command, out reply) bool{
	"SPOP": func(s *state, _ int, c command, out reply) bool {
		if !s.is(c.keys[0], typeSet) {
			return out.equal(wrongType)
		}
		if s[c.keys[0]] == "" {
			return out.equal(null())
		}
		return out.kind == '$' && s.removeMember(c.keys[0], out.text)
	},
	// A list that is there is popped. Null is what the client is told when none of its keys is a
	// list at the end of its wait: another type wakes nobody.
	"BLPOP": func(s *state, _ int, c command, out reply) bool {
		isList := func(key int) bool { return s[key] != "" && s[key][0] == typeList }
		if out.kind == '_' {
			return !slices.ContainsFunc(c.keys, isList)
		}
		for _, key := range c.keys {
			if isList(key) {
				return out.kind == '*' && len(out.items) == 2 && out.items[1].equal(s.pop(key, true))
			}
			if s[key] != "" {
				return out.equal(wrongType)
			}
		}
		return false
	},
	"BLMOVE": func(s *state, _ int, c command, out reply) bool {
		isList := s[c.keys[0]] != "" && s[c.keys[0]][0] == typeList
		if out.kind == '_' {
			return !isList
		}
		return s[c.keys[0]] != "" && out.equal(s.moveElement(c))
	},
	"RANDOMKEY": func(s *state, base int, _ command, out reply) bool {
		if s.size(base) == 0 {
			return out.equal(null())
		}
		key, err := strconv.Atoi(out.text[max(len(out.text)-1, 0):])
		return err == nil && s[base+key] != ""
	},
	"KEYS": func(s *state, base int, _ command, out reply) bool {
		for _, item := range out.items {
			key, err := strconv.Atoi(item.text[max(len(item.text)-1, 0):])
			if err != nil || s[base+key] == "" {
				return false
			}
		}
		return len(out.items) == s.size(base)
	},
	// What a transaction found unchanged since WATCH.
	"EXEC-WATCHED": func(s *state, _ int, c command, out reply) bool {
		expected := ""
		if len(c.args) > 1 {
			expected = string(typeString) + c.args[1]
		}
		if s[c.keys[0]] != expected {
			return false
		}
		s.set(c.keys[0], c.args[0])
		return true
	},
}

func (s *state) add(key, by int) reply {
	if !s.is(key, typeString) {
		return wrongType
	}
	n, isNumber := integer(s.text(key).text)
	if s[key] != "" && !isNumber {
		return failed("ERR")
	}
	s.set(key, strconv.Itoa(n+by))
	return number(n + by)
}

func (s *state) remove(keys []int) reply {
	count := 0
	for _, key := range keys {
		if s[key] != "" {
			count++
		}
		s[key] = ""
	}
	return number(count)
}

func (s *state) count(key int, kind byte) reply {
	if !s.is(key, kind) {
		return wrongType
	}
	return number(len(s.parts(key)))
}

func (s *state) all(key int, kind byte) reply {
	if !s.is(key, kind) {
		return wrongType
	}
	return bulks(s.parts(key))
}

func (s *state) push(key int, left bool, elements []string) reply {
	if !s.is(key, typeList) {
		return wrongType
	}
	list := s.parts(key)
	for _, element := range elements {
		if left {
			list = slices.Insert(list, 0, element)
		} else {
			list = append(list, element)
		}
	}
	s.setParts(key, typeList, list)
	return number(len(list))
}

func (s *state) pop(key int, left bool) reply {
	if !s.is(key, typeList) {
		return wrongType
	}
	list := s.parts(key)
	if len(list) == 0 {
		return null()
	}
	at := len(list) - 1
	if left {
		at = 0
	}
	element := list[at]
	s.setParts(key, typeList, slices.Delete(list, at, at+1))
	return bulk(element)
}

// moveElement takes from the left of the first key to the right of the second.
func (s *state) moveElement(c command) reply {
	if !s.is(c.keys[0], typeList) || !s.is(c.keys[1], typeList) {
		return wrongType
	}
	element := s.pop(c.keys[0], true)
	s.push(c.keys[1], false, []string{element.text})
	return element
}

func (s *state) removeMember(key int, member string) bool {
	members := s.parts(key)
	at := slices.Index(members, member)
	if at < 0 {
		return false
	}
	s.setParts(key, typeSet, slices.Delete(members, at, at+1))
	return true
}
