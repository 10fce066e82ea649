"""Commands that Redis 8.2 to 8.6 added, and the replies of Redis 8.6.3 to them.

Each reply is written in one line: `|` stands for a line end, and `NOW` for the time of an id that
the server made. Where RESP3 has another reply, it follows.
"""

# fmt: off
REPLIES = {
    "set_compares_the_value": [
        ("SET k one", "+OK|"),
        ("SET k two IFEQ one", "+OK|"),
        ("GET k", "$3|two|"),
        ("SET k three IFEQ one", "$-1|", "_|"),
        ("SET k three IFNE two", "$-1|", "_|"),
        ("SET k three IFNE one", "+OK|"),
        ("GET k", "$5|three|"),
        ("SET none x IFEQ x", "$-1|", "_|"),
        ("SET none x IFDEQ 0000000000000000", "$-1|", "_|"),
        ("EXISTS none", ":0|"),
        ("SET none x IFNE x", "+OK|"),
        ("SET none2 x IFDNE 0000000000000000", "+OK|"),
        ("SET k four IFEQ three GET", "$5|three|"),
        ("SET k five IFEQ three GET", "$4|four|"),
        ("SET none3 x IFEQ y GET", "$-1|", "_|"),
        ("SET none3 x IFNE y GET", "$-1|", "_|"),
        ("GET none3", "$1|x|"),
        ("SET k v IFEQ four EX 100", "+OK|"),
        ("TTL k", ":100|"),
        ("SET k v IFEQ v KEEPTTL", "+OK|"),
        ("TTL k", ":100|"),
        ("SET k 12 IFEQ v", "+OK|"),
        ("SET k 13 IFEQ 12", "+OK|"),
        ("OBJECT ENCODING k", "$3|int|"),
        ("SET k 14 IFEQ 013", "$-1|", "_|"),
        ("RPUSH l a", ":1|"),
        ("SET l x IFEQ x", "-WRONGTYPE Operation against a key holding the wrong kind of value|"),
        ("SET l x IFNE x", "-WRONGTYPE Operation against a key holding the wrong kind of value|"),
        (
            "SET l x IFDNE 0000000000000000",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
        ),
        ("SET l x XX IFEQ x", "-ERR syntax error|"),
        ("SET k v IFEQ 13 NX", "$-1|", "_|"),
        ("SET k v NX IFEQ 13", "-ERR syntax error|"),
        ("SET none4 v IFNE 13 NX", "+OK|"),
        ("SET k w IFEQ 13 XX", "+OK|"),
        ("SET k w IFEQ w IFEQ 13", "$-1|", "_|"),
        ("SET k w IFEQ w IFNE 13", "-ERR syntax error|"),
        ("SET k w IFEQ", "-ERR syntax error|"),
        ("SET k w IFDEQ abc", "-ERR must be exactly 16 hexadecimal characters|"),
        ("SET none5 w IFDEQ abc", "$-1|", "_|"),
        ("SET k w IFDEQ 00000000000000000", "-ERR must be exactly 16 hexadecimal characters|"),
    ],
    "digests": [
        ("SET empty \"\"", "+OK|"),
        ("SET a a", "+OK|"),
        ("SET hello \"Hello world\"", "+OK|"),
        ("SET number 123", "+OK|"),
        (
            "SET long AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "+OK|",
        ),
        ("SETRANGE medium 100 xyz", ":103|"),
        ("DIGEST empty", "$16|2d06800538d394c2|"),
        ("DIGEST a", "$16|e6c632b61e964e1f|"),
        ("DIGEST hello", "$16|b6acb9d84a38ff74|"),
        ("DIGEST number", "$16|404a763b3f4c8c9a|"),
        ("DIGEST long", "$16|4cc03e762b38b6a5|"),
        ("DIGEST medium", "$16|7ada2ae88fffa686|"),
        ("DIGEST none", "$-1|", "_|"),
        ("DIGEST", "-ERR wrong number of arguments for 'digest' command|"),
        ("DIGEST a b", "-ERR wrong number of arguments for 'digest' command|"),
        ("RPUSH l x", ":1|"),
        ("DIGEST l", "-WRONGTYPE Operation against a key holding the wrong kind of value|"),
        ("SET hello changed IFDEQ B6ACB9D84A38FF74", "+OK|"),
        ("SET hello changed IFDNE b6acb9d84a38ff74", "+OK|"),
        ("SET hello changed IFDEQ b6acb9d84a38ff74", "$-1|", "_|"),
        ("DIGEST hello", "$16|09f3609df6eb52af|"),
        ("SET hello again IFDEQ zzzzzzzzzzzzzzzz", "$-1|", "_|"),
        ("SET hello again IFDNE zzzzzzzzzzzzzzzz", "+OK|"),
    ],
    "delex": [
        ("SET k one", "+OK|"),
        ("DELEX k IFEQ two", ":0|"),
        ("DELEX k IFNE one", ":0|"),
        ("DELEX k IFEQ one", ":1|"),
        ("EXISTS k", ":0|"),
        ("DELEX k", ":0|"),
        ("DELEX k IFEQ one", ":0|"),
        ("SET k one", "+OK|"),
        ("DELEX k", ":1|"),
        ("SET hello \"Hello world\"", "+OK|"),
        ("DELEX hello IFDEQ abc", "-ERR must be exactly 16 hexadecimal characters|"),
        ("DELEX hello IFDNE abc", "-ERR must be exactly 16 hexadecimal characters|"),
        ("DELEX none IFDEQ abc", ":0|"),
        ("DELEX hello IFDEQ 0000000000000000", ":0|"),
        ("DELEX hello IFDNE b6acb9d84a38ff74", ":0|"),
        ("DELEX hello IFDEQ B6ACB9D84A38FF74", ":1|"),
        ("EXISTS hello", ":0|"),
        ("SET n 5", "+OK|"),
        ("DELEX n IFEQ 05", ":0|"),
        ("DELEX n ifeq 5", ":1|"),
        ("RPUSH l x", ":1|"),
        ("DELEX l IFEQ x", "-ERR Key should be of string type if conditions are specified|"),
        ("DELEX l FOO x", "-ERR Key should be of string type if conditions are specified|"),
        ("DELEX l", ":1|"),
        ("SET k v", "+OK|"),
        ("DELEX k FOO v", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE|"),
        ("DELEX k IFEQ", "-ERR wrong number of arguments for 'delex' command|"),
        ("DELEX k IFEQ v x", "-ERR wrong number of arguments for 'delex' command|"),
        ("DELEX", "-ERR wrong number of arguments for 'delex' command|"),
        ("DELEX none FOO v", ":0|"),
    ],
    "msetex": [
        ("MSETEX 2 a 1 b 2", ":1|"),
        ("MGET a b", "*2|$1|1|$1|2|"),
        ("MSETEX 2 a 3 c 4 NX", ":0|"),
        ("MGET a b c", "*3|$1|1|$1|2|$-1|", "*3|$1|1|$1|2|_|"),
        ("MSETEX 2 a 3 c 4 XX", ":0|"),
        ("MSETEX 2 a 3 b 4 XX", ":1|"),
        ("MSETEX 2 c 5 d 6 NX EX 100", ":1|"),
        ("TTL c", ":100|"),
        ("TTL d", ":100|"),
        ("MSETEX 1 c 7 KEEPTTL", ":1|"),
        ("TTL c", ":100|"),
        ("MSETEX 1 c 7", ":1|"),
        ("TTL c", ":-1|"),
        ("MSETEX 1 c 7 XX PX 50000", ":1|"),
        ("TTL c", ":50|"),
        ("MSETEX 1 c 7 EXAT 33000000000", ":1|"),
        ("EXPIRETIME c", ":33000000000|"),
        ("MSETEX 1 c 7 PXAT 33000000001000 XX", ":1|"),
        ("EXPIRETIME c", ":33000000001|"),
        ("MSETEX 2 a 1 a 2", ":1|"),
        ("GET a", "$1|2|"),
        ("RPUSH l x", ":1|"),
        ("MSETEX 2 l y m z", ":1|"),
        ("TYPE l", "+string|"),
        ("MSETEX 0 a 1", "-ERR invalid numkeys value|"),
        ("MSETEX -1 a 1", "-ERR invalid numkeys value|"),
        ("MSETEX x a 1", "-ERR invalid numkeys value|"),
        ("MSETEX 2 a 1", "-ERR wrong number of key-value pairs|"),
        ("MSETEX 2 a 1 b", "-ERR wrong number of key-value pairs|"),
        ("MSETEX 2147483648 a 1", "-ERR invalid numkeys value|"),
        ("MSETEX 1 a 1 b 2", "-ERR syntax error|"),
        ("MSETEX 1 a 1 NX XX", "-ERR syntax error|"),
        ("MSETEX 1 a 1 EX 0", "-ERR invalid expire time in 'msetex' command|"),
        ("MSETEX 1 a 1 EX x", "-ERR value is not an integer or out of range|"),
        ("MSETEX 1 a 1 EX", "-ERR syntax error|"),
        ("MSETEX 1 a 1 EX 5 PX 5", "-ERR syntax error|"),
        ("MSETEX 1 a 1 EX 5 KEEPTTL", "-ERR syntax error|"),
        ("MSETEX 1 a 1 GET", "-ERR syntax error|"),
        ("MSETEX 1 a 1 IFEQ 1", "-ERR syntax error|"),
        ("MSETEX 1 a", "-ERR wrong number of arguments for 'msetex' command|"),
        ("COMMAND GETKEYS MSETEX 2 a 1 b 2 EX 10", "*2|$1|a|$1|b|"),
        (
            "COMMAND GETKEYSANDFLAGS MSETEX 2 a 1 b 2 EX 10",
            "*2|*2|$1|a|*2|+OW|+update|*2|$1|b|*2|+OW|+update|",
            "*2|*2|$1|a|~2|+OW|+update|*2|$1|b|~2|+OW|+update|",
        ),
        (
            "COMMAND GETKEYSANDFLAGS DELEX a",
            "*1|*2|$1|a|*2|+RM|+delete|",
            "*1|*2|$1|a|~2|+RM|+delete|",
        ),
        (
            "COMMAND GETKEYSANDFLAGS DELEX a IFEQ b",
            "*1|*2|$1|a|*2|+RW|+delete|",
            "*1|*2|$1|a|~2|+RW|+delete|",
        ),
        (
            "COMMAND GETKEYSANDFLAGS SET a b IFEQ b",
            "*1|*2|$1|a|*2|+RW|+update|",
            "*1|*2|$1|a|~2|+RW|+update|",
        ),
        (
            "COMMAND GETKEYSANDFLAGS SET a b GET",
            "*1|*2|$1|a|*3|+RW|+access|+update|",
            "*1|*2|$1|a|~3|+RW|+access|+update|",
        ),
        (
            "COMMAND GETKEYSANDFLAGS SET a b",
            "*1|*2|$1|a|*2|+OW|+update|",
            "*1|*2|$1|a|~2|+OW|+update|",
        ),
    ],
    "bits": [
        ("SET a abc", "+OK|"),
        ("SET b aXc", "+OK|"),
        ("SET c zz", "+OK|"),
        ("BITOP DIFF d a b", ":3|"),
        ("GET d", "$3|\x00\"\x00|"),
        ("BITOP DIFF d a b c", ":3|"),
        ("BITOP DIFF1 d a b c", ":3|"),
        ("GET d", "$3|\x1a\x18\x00|"),
        ("BITOP ANDOR d a b c", ":3|"),
        ("GET d", "$3|abc|"),
        ("BITOP ONE d a b c", ":3|"),
        ("GET d", "$3|\x1a\x00\x00|"),
        ("BITOP DIFF d a", "-ERR BITOP DIFF must be called with at least two source keys.|"),
        ("BITOP DIFF1 d a", "-ERR BITOP DIFF1 must be called with at least two source keys.|"),
        ("BITOP ANDOR d a", "-ERR BITOP ANDOR must be called with at least two source keys.|"),
        ("BITOP ONE d a", ":3|"),
        ("BITOP ONE d none", ":0|"),
        ("EXISTS d", ":0|"),
        ("BITOP FOO d a", "-ERR syntax error|"),
    ],
    "idempotent_entries": [
        ("XADD s IDMP p i1 * a 1", "$15|NOW-0|"),
        ("XADD s IDMP p i1 * a 2", "$15|NOW-0|"),
        ("XADD s IDMP p i2 * a 3", "$15|NOW-1|"),
        ("XADD s IDMP q i1 * a 1", "$15|NOW-2|"),
        ("XLEN s", ":3|"),
        ("XADD s IDMPAUTO p * a 1 b 2", "$15|NOW-3|"),
        ("XADD s IDMPAUTO p * b 2 a 1", "$15|NOW-3|"),
        ("XADD s IDMPAUTO p * b 1 a 2", "$15|NOW-0|", "$15|NOW-4|"),
        ("XADD s NOMKSTREAM IDMP p i9 * a 1", "$15|NOW-1|", "$15|NOW-5|"),
        ("XADD none NOMKSTREAM IDMP p i9 * a 1", "$-1|", "_|"),
        ("XADD s IDMP p i3 MAXLEN 3 * a 1", "$15|NOW-0|"),
        ("XADD s MAXLEN 3 IDMP p i3 * a 1", "$15|NOW-0|"),
        ("XLEN s", ":3|"),
        (
            "XADD s IDMP p i1 5-5 a 1",
            "-ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs|",
        ),
        (
            "XADD s IDMP p i1 99999999999999-* a 1",
            "-ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs|",
        ),
        ("XADD s IDMP p i1 x a 1", "-ERR Invalid stream ID specified as stream command argument|"),
        ("XADD s IDMP \"\" i1 * a 1", "-ERR syntax error, IDMP requires a non-empty producer ID|"),
        ("XADD s IDMP p \"\" * a 1", "-ERR syntax error, IDMP requires a non-empty idempotent ID|"),
        (
            "XADD s IDMPAUTO \"\" * a 1",
            "-ERR syntax error, IDMPAUTO requires a non-empty producer ID|",
        ),
        (
            "XADD s IDMP p i1 IDMP p i2 * a 1",
            "-ERR syntax error, IDMP/IDMPAUTO specified multiple times|",
        ),
        (
            "XADD s IDMP p i1 IDMPAUTO p * a 1",
            "-ERR syntax error, IDMP/IDMPAUTO specified multiple times|",
        ),
        ("XADD s IDMP p * a 1", "-ERR Invalid stream ID specified as stream command argument|"),
        ("XADD s IDMPAUTO * a 1", "-ERR Invalid stream ID specified as stream command argument|"),
        ("XADD s IDMP p i1 * a", "-ERR wrong number of arguments for 'xadd' command|"),
        ("SET text x", "+OK|"),
        (
            "XADD text IDMP p i1 * a 1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
        ),
        (
            "XINFO STREAM s",
            "*32|$6|length|:3|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-0|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:7|$23|recorde"
            "d-first-entry-id|$15|NOW-0|$13|idmp-duration|:100|$12|idmp-maxsize|:100|$12|pids"
            "-tracked|:2|$12|iids-tracked|:7|$10|iids-added|:7|$15|iids-duplicates|:3|$6|grou"
            "ps|:0|$11|first-entry|*2|$15|NOW-0|*4|$1|b|$1|1|$1|a|$1|2|$10|last-entry|*2|$15|"
            "NOW-0|*2|$1|a|$1|1|",
            "%16|$6|length|:3|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-0|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:7|$23|recorde"
            "d-first-entry-id|$15|NOW-4|$13|idmp-duration|:100|$12|idmp-maxsize|:100|$12|pids"
            "-tracked|:2|$12|iids-tracked|:7|$10|iids-added|:7|$15|iids-duplicates|:3|$6|grou"
            "ps|:0|$11|first-entry|*2|$15|NOW-4|*4|$1|b|$1|1|$1|a|$1|2|$10|last-entry|*2|$15|"
            "NOW-0|*2|$1|a|$1|1|",
        ),
        ("XCFGSET s IDMP-DURATION 200", "+OK|"),
        (
            "XINFO STREAM s",
            "*32|$6|length|:3|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-0|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:7|$23|recorde"
            "d-first-entry-id|$15|NOW-0|$13|idmp-duration|:200|$12|idmp-maxsize|:100|$12|pids"
            "-tracked|:0|$12|iids-tracked|:0|$10|iids-added|:7|$15|iids-duplicates|:3|$6|grou"
            "ps|:0|$11|first-entry|*2|$15|NOW-0|*4|$1|b|$1|1|$1|a|$1|2|$10|last-entry|*2|$15|"
            "NOW-0|*2|$1|a|$1|1|",
            "%16|$6|length|:3|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-0|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:7|$23|recorde"
            "d-first-entry-id|$15|NOW-4|$13|idmp-duration|:200|$12|idmp-maxsize|:100|$12|pids"
            "-tracked|:0|$12|iids-tracked|:0|$10|iids-added|:7|$15|iids-duplicates|:3|$6|grou"
            "ps|:0|$11|first-entry|*2|$15|NOW-4|*4|$1|b|$1|1|$1|a|$1|2|$10|last-entry|*2|$15|"
            "NOW-0|*2|$1|a|$1|1|",
        ),
        ("XCFGSET s IDMP-MAXSIZE 2", "+OK|"),
        ("XADD s IDMP p i1 * a 1", "$15|NOW-0|"),
        ("XADD s IDMP p i2 * a 1", "$15|NOW-0|", "$15|NOW-1|"),
        ("XADD s IDMP p i3 * a 1", "$15|NOW-1|", "$15|NOW-2|"),
        ("XADD s IDMP p i2 * a 1", "$15|NOW-0|", "$15|NOW-1|"),
        ("XADD s IDMP p i1 * a 1", "$15|NOW-2|", "$15|NOW-0|"),
        ("XCFGSET s IDMP-MAXSIZE 2 IDMP-DURATION 200", "+OK|"),
        (
            "XINFO STREAM s FULL COUNT 1",
            "*30|$6|length|:7|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-2|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:11|$23|record"
            "ed-first-entry-id|$15|NOW-0|$13|idmp-duration|:200|$12|idmp-maxsize|:2|$12|pids-"
            "tracked|:1|$12|iids-tracked|:2|$10|iids-added|:11|$15|iids-duplicates|:4|$7|entr"
            "ies|*1|*2|$15|NOW-0|*4|$1|b|$1|1|$1|a|$1|2|$6|groups|*0|",
            "%15|$6|length|:7|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-0|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:11|$23|record"
            "ed-first-entry-id|$15|NOW-4|$13|idmp-duration|:200|$12|idmp-maxsize|:2|$12|pids-"
            "tracked|:1|$12|iids-tracked|:2|$10|iids-added|:11|$15|iids-duplicates|:4|$7|entr"
            "ies|*1|*2|$15|NOW-4|*4|$1|b|$1|1|$1|a|$1|2|$6|groups|*0|",
        ),
        ("XCFGSET s", "-ERR At least one parameter must be specified|"),
        ("XCFGSET none IDMP-MAXSIZE 2", "-ERR no such key|"),
        (
            "XCFGSET text IDMP-MAXSIZE 2",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
        ),
        ("XCFGSET s IDMP-MAXSIZE 0", "-ERR IDMP-MAXSIZE must be between 1 and 10000 entries|"),
        ("XCFGSET s IDMP-MAXSIZE 10001", "-ERR IDMP-MAXSIZE must be between 1 and 10000 entries|"),
        ("XCFGSET s IDMP-DURATION 0", "-ERR IDMP-DURATION must be between 1 and 86400 seconds|"),
        (
            "XCFGSET s IDMP-DURATION 86401",
            "-ERR IDMP-DURATION must be between 1 and 86400 seconds|",
        ),
        ("XCFGSET s IDMP-DURATION x", "-ERR value is not an integer or out of range|"),
        (
            "XCFGSET s IDMP-DURATION 5 IDMP-DURATION 6",
            "-ERR IDMP-DURATION specified multiple times|",
        ),
        ("XCFGSET s IDMP-MAXSIZE 5 IDMP-MAXSIZE 6", "-ERR IDMP-MAXSIZE specified multiple times|"),
        ("XCFGSET s IDMP-DURATION", "-ERR syntax error|"),
        ("XCFGSET s FOO 5", "-ERR syntax error|"),
        ("COPY s t", ":1|"),
        ("XADD t IDMP p i1 * a 1", "$15|NOW-2|", "$15|NOW-0|"),
        (
            "XINFO STREAM t",
            "*32|$6|length|:7|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-2|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:11|$23|record"
            "ed-first-entry-id|$15|NOW-0|$13|idmp-duration|:200|$12|idmp-maxsize|:2|$12|pids-"
            "tracked|:1|$12|iids-tracked|:2|$10|iids-added|:11|$15|iids-duplicates|:5|$6|grou"
            "ps|:0|$11|first-entry|*2|$15|NOW-0|*4|$1|b|$1|1|$1|a|$1|2|$10|last-entry|*2|$15|"
            "NOW-2|*2|$1|a|$1|1|",
            "%16|$6|length|:7|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-0|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:11|$23|record"
            "ed-first-entry-id|$15|NOW-4|$13|idmp-duration|:200|$12|idmp-maxsize|:2|$12|pids-"
            "tracked|:1|$12|iids-tracked|:2|$10|iids-added|:11|$15|iids-duplicates|:5|$6|grou"
            "ps|:0|$11|first-entry|*2|$15|NOW-4|*4|$1|b|$1|1|$1|a|$1|2|$10|last-entry|*2|$15|"
            "NOW-0|*2|$1|a|$1|1|",
        ),
        ("CONFIG SET stream-idmp-duration 300 stream-idmp-maxsize 7", "+OK|"),
        ("XADD u * a 1", "$15|NOW-0|"),
        (
            "XINFO STREAM u",
            "*32|$6|length|:1|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-0|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:1|$23|recorde"
            "d-first-entry-id|$15|NOW-0|$13|idmp-duration|:300|$12|idmp-maxsize|:7|$12|pids-t"
            "racked|:0|$12|iids-tracked|:0|$10|iids-added|:0|$15|iids-duplicates|:0|$6|groups"
            "|:0|$11|first-entry|*2|$15|NOW-0|*2|$1|a|$1|1|$10|last-entry|*2|$15|NOW-0|*2|$1|"
            "a|$1|1|",
            "%16|$6|length|:1|$15|radix-tree-keys|:1|$16|radix-tree-nodes|:2|$17|last-generat"
            "ed-id|$15|NOW-0|$20|max-deleted-entry-id|$3|0-0|$13|entries-added|:1|$23|recorde"
            "d-first-entry-id|$15|NOW-0|$13|idmp-duration|:300|$12|idmp-maxsize|:7|$12|pids-t"
            "racked|:0|$12|iids-tracked|:0|$10|iids-added|:0|$15|iids-duplicates|:0|$6|groups"
            "|:0|$11|first-entry|*2|$15|NOW-0|*2|$1|a|$1|1|$10|last-entry|*2|$15|NOW-0|*2|$1|"
            "a|$1|1|",
        ),
        (
            "CONFIG SET stream-idmp-duration 0",
            "-ERR CONFIG SET failed (possibly related to argument 'stream-idmp-duration') - a"
            "rgument must be between 1 and 86400 inclusive|",
        ),
        (
            "CONFIG SET stream-idmp-maxsize 10001",
            "-ERR CONFIG SET failed (possibly related to argument 'stream-idmp-maxsize') - ar"
            "gument must be between 1 and 10000 inclusive|",
        ),
        ("CONFIG SET stream-idmp-duration 100 stream-idmp-maxsize 100", "+OK|"),
    ],
    "recorded_entries": [
        ("XADD s 1-1 a 1", "$3|1-1|"),
        ("XADD s 1-2 a 1", "$3|1-2|"),
        ("XIDMPRECORD s p i1 1-1", "+OK|"),
        ("XIDMPRECORD s p i2 1-3", "-ERR No such message in stream|"),
        ("XIDMPRECORD s \"\" i2 1-2", "-ERR producer ID must be non-empty|"),
        ("XIDMPRECORD s p \"\" 1-2", "-ERR idempotent ID must be non-empty|"),
        ("XIDMPRECORD s p i2 x", "-ERR Invalid stream ID specified as stream command argument|"),
        ("XIDMPRECORD none p i2 1-2", "-ERR no such key|"),
        ("XIDMPRECORD s p i2", "-ERR wrong number of arguments for 'xidmprecord' command|"),
        ("SET text x", "+OK|"),
        (
            "XIDMPRECORD text p i2 1-2",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
        ),
    ],
    "claims_by_reading": [
        ("XADD s 1-1 a 1", "$3|1-1|"),
        ("XADD s 1-2 a 2", "$3|1-2|"),
        ("XADD s 1-3 a 3", "$3|1-3|"),
        ("XGROUP CREATE s g 0", "+OK|"),
        (
            "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
            "*1|*2|$1|s|*2|*2|$3|1-1|*2|$1|a|$1|1|*2|$3|1-2|*2|$1|a|$1|2|",
            "%1|$1|s|*2|*2|$3|1-1|*2|$1|a|$1|1|*2|$3|1-2|*2|$1|a|$1|2|",
        ),
        (
            "XREADGROUP GROUP g d CLAIM 100000 COUNT 1 STREAMS s >",
            "*1|*2|$1|s|*1|*4|$3|1-3|*2|$1|a|$1|3|:0|:0|",
            "%1|$1|s|*1|*4|$3|1-3|*2|$1|a|$1|3|:0|:0|",
        ),
        ("XREADGROUP GROUP g d CLAIM 100000 STREAMS s >", "*-1|", "_|"),
        (
            "XREADGROUP GROUP g d CLAIM 0 COUNT 1 STREAMS s >",
            "*1|*2|$1|s|*1|*4|$3|1-1|*2|$1|a|$1|1|:0|:1|",
            "%1|$1|s|*1|*4|$3|1-1|*2|$1|a|$1|1|:0|:1|",
        ),
        ("XPENDING s g", "*4|:3|$3|1-1|$3|1-3|*2|*2|$1|c|$1|1|*2|$1|d|$1|2|"),
        (
            "XREADGROUP GROUP g e COUNT 10 CLAIM 0 NOACK STREAMS s >",
            "*1|*2|$1|s|*3|*4|$3|1-2|*2|$1|a|$1|2|:0|:1|*4|$3|1-3|*2|$1|a|$1|3|:0|:1|*4|$3|1-"
            "1|*2|$1|a|$1|1|:0|:2|",
            "%1|$1|s|*3|*4|$3|1-2|*2|$1|a|$1|2|:0|:1|*4|$3|1-3|*2|$1|a|$1|3|:0|:1|*4|$3|1-1|*"
            "2|$1|a|$1|1|:0|:2|",
        ),
        ("XPENDING s g", "*4|:3|$3|1-1|$3|1-3|*1|*2|$1|e|$1|3|"),
        ("XADD s 1-4 a 4", "$3|1-4|"),
        (
            "XREADGROUP GROUP g f CLAIM 0 STREAMS s >",
            "*1|*2|$1|s|*4|*4|$3|1-2|*2|$1|a|$1|2|:1|:2|*4|$3|1-3|*2|$1|a|$1|3|:1|:2|*4|$3|1-"
            "1|*2|$1|a|$1|1|:1|:3|*4|$3|1-4|*2|$1|a|$1|4|:0|:0|",
            "%1|$1|s|*4|*4|$3|1-2|*2|$1|a|$1|2|:0|:2|*4|$3|1-3|*2|$1|a|$1|3|:0|:2|*4|$3|1-1|*"
            "2|$1|a|$1|1|:0|:3|*4|$3|1-4|*2|$1|a|$1|4|:0|:0|",
        ),
        ("XADD s 1-5 a 5", "$3|1-5|"),
        (
            "XREADGROUP GROUP g f CLAIM 0 COUNT 2 STREAMS s >",
            "*1|*2|$1|s|*2|*4|$3|1-2|*2|$1|a|$1|2|:0|:3|*4|$3|1-3|*2|$1|a|$1|3|:0|:3|",
            "%1|$1|s|*2|*4|$3|1-2|*2|$1|a|$1|2|:0|:3|*4|$3|1-3|*2|$1|a|$1|3|:0|:3|",
        ),
        ("XDEL s 1-1", ":1|"),
        (
            "XREADGROUP GROUP g h CLAIM 0 COUNT 1 STREAMS s >",
            "*1|*2|$1|s|*1|*4|$3|1-4|*2|$1|a|$1|4|:0|:1|",
            "%1|$1|s|*1|*4|$3|1-4|*2|$1|a|$1|4|:1|:1|",
        ),
        (
            "XREADGROUP GROUP g h CLAIM 0 STREAMS s 0",
            "*1|*2|$1|s|*1|*2|$3|1-4|*2|$1|a|$1|4|",
            "%1|$1|s|*1|*2|$3|1-4|*2|$1|a|$1|4|",
        ),
        (
            "XREADGROUP GROUP g h CLAIM 0 STREAMS s s 0 >",
            "*2|*2|$1|s|*1|*2|$3|1-4|*2|$1|a|$1|4|*2|$1|s|*1|*2|$3|1-5|*2|$1|a|$1|5|",
            "%2|$1|s|*1|*2|$3|1-4|*2|$1|a|$1|4|$1|s|*1|*2|$3|1-5|*2|$1|a|$1|5|",
        ),
        (
            "XREADGROUP GROUP g h CLAIM -1 STREAMS s >",
            "-ERR min-idle-time must be a positive integer|",
        ),
        (
            "XREADGROUP GROUP g h CLAIM x STREAMS s >",
            "-ERR min-idle-time is not an integer or out of range|",
        ),
        (
            "XREADGROUP GROUP g h CLAIM STREAMS s >",
            "-ERR min-idle-time is not an integer or out of range|",
        ),
        (
            "XREAD CLAIM 5 STREAMS s 0",
            "-ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead."
            "|",
        ),
        ("XREADGROUP GROUP g h CLAIM 5 CLAIM 100000 STREAMS s >", "*-1|", "_|"),
        ("XREADGROUP GROUP g h BLOCK 10 CLAIM 100000 STREAMS s >", "*-1|", "_|"),
        (
            "XREADGROUP GROUP none h CLAIM 0 STREAMS s >",
            "-NOGROUP No such key 's' or consumer group 'none' in XREADGROUP with GROUP optio"
            "n|",
        ),
        ("XACK s g 1-1 1-2 1-3 1-4 1-5", ":5|"),
        ("XREADGROUP GROUP g h CLAIM 0 STREAMS s >", "*-1|", "_|"),
    ],
    "deletes_with_references": [
        ("XADD s 1-1 a 1", "$3|1-1|"),
        ("XADD s 1-2 a 2", "$3|1-2|"),
        ("XADD s 1-3 a 3", "$3|1-3|"),
        ("XADD s 1-4 a 4", "$3|1-4|"),
        ("XADD s 1-5 a 5", "$3|1-5|"),
        ("XGROUP CREATE s g 0", "+OK|"),
        ("XGROUP CREATE s h 0", "+OK|"),
        (
            "XREADGROUP GROUP g c COUNT 3 STREAMS s >",
            "*1|*2|$1|s|*3|*2|$3|1-1|*2|$1|a|$1|1|*2|$3|1-2|*2|$1|a|$1|2|*2|$3|1-3|*2|$1|a|$1"
            "|3|",
            "%1|$1|s|*3|*2|$3|1-1|*2|$1|a|$1|1|*2|$3|1-2|*2|$1|a|$1|2|*2|$3|1-3|*2|$1|a|$1|3|",
        ),
        ("XDELEX s IDS 1 1-1", "*1|:1|"),
        ("XPENDING s g", "*4|:3|$3|1-1|$3|1-3|*1|*2|$1|c|$1|3|"),
        ("XDELEX s DELREF IDS 2 1-1 1-2", "*2|:-1|:1|"),
        ("XPENDING s g", "*4|:1|$3|1-3|$3|1-3|*1|*2|$1|c|$1|1|"),
        ("XDELEX s ACKED IDS 2 1-3 1-4", "*2|:2|:2|"),
        (
            "XREADGROUP GROUP h c STREAMS s >",
            "*1|*2|$1|s|*3|*2|$3|1-3|*2|$1|a|$1|3|*2|$3|1-4|*2|$1|a|$1|4|*2|$3|1-5|*2|$1|a|$1"
            "|5|",
            "%1|$1|s|*3|*2|$3|1-3|*2|$1|a|$1|3|*2|$3|1-4|*2|$1|a|$1|4|*2|$3|1-5|*2|$1|a|$1|5|",
        ),
        ("XACK s g 1-3", ":1|"),
        ("XACK s h 1-3", ":1|"),
        ("XDELEX s ACKED IDS 1 1-3", "*1|:1|"),
        ("XACKDEL s g IDS 1 1-4", "*1|:-1|"),
        ("XACKDEL s h IDS 2 1-4 1-5", "*2|:1|:1|"),
        ("XACKDEL s h KEEPREF IDS 1 1-5", "*1|:-1|"),
        ("XACKDEL none h IDS 1 1-5", "*1|:-1|"),
        ("XACKDEL s none IDS 1 1-5", "*1|:-1|"),
        ("XDELEX none IDS 2 1-1 1-2", "*2|:-1|:-1|"),
        ("XDELEX s IDS 0 1-1", "-ERR Number of IDs must be a positive integer|"),
        ("XDELEX s IDS x 1-1", "-ERR Number of IDs must be a positive integer|"),
        ("XDELEX s IDS 2 1-1", "-ERR The `numids` parameter must match the number of arguments|"),
        ("XDELEX s IDS 1 1-1 1-2", "-ERR syntax error|"),
        ("XDELEX s KEEPREF DELREF IDS 1 1-1", "-ERR syntax error|"),
        ("XDELEX s FOO 1 1-1", "-ERR syntax error|"),
        ("XDELEX s IDS 1 x", "-ERR Invalid stream ID specified as stream command argument|"),
        ("XADD s DELREF MAXLEN 1 2-1 a 1", "$3|2-1|"),
        ("XADD s ACKED MAXLEN 1 2-2 a 1", "$3|2-2|"),
        ("XTRIM s MAXLEN 0 ACKED", ":0|"),
        ("XTRIM s MAXLEN 0 DELREF", ":2|"),
        (
            "XINFO GROUPS s",
            "*2|*12|$4|name|$1|g|$9|consumers|:1|$7|pending|:0|$17|last-delivered-id|$3|1-3|$"
            "12|entries-read|:3|$3|lag|:0|*12|$4|name|$1|h|$9|consumers|:1|$7|pending|:0|$17|"
            "last-delivered-id|$3|1-5|$12|entries-read|:5|$3|lag|:0|",
            "*2|%6|$4|name|$1|g|$9|consumers|:1|$7|pending|:0|$17|last-delivered-id|$3|1-3|$1"
            "2|entries-read|:3|$3|lag|:0|%6|$4|name|$1|h|$9|consumers|:1|$7|pending|:0|$17|la"
            "st-delivered-id|$3|1-5|$12|entries-read|:5|$3|lag|:0|",
        ),
    ],
    "hot_keys": [
        ("HOTKEYS GET", "$-1|", "_|"),
        ("HOTKEYS STOP", "$-1|", "_|"),
        ("HOTKEYS RESET", "+OK|"),
        ("HOTKEYS START", "-ERR METRICS parameter is required|"),
        ("HOTKEYS START METRICS", "-ERR METRICS parameter is required|"),
        ("HOTKEYS START METRICS 0", "-ERR METRICS count must be > 0 and <= 2|"),
        ("HOTKEYS START METRICS 3 CPU NET", "-ERR METRICS count must be > 0 and <= 2|"),
        (
            "HOTKEYS START METRICS 1 GPU",
            "-ERR METRICS no valid metrics passed. Supported: CPU|NET|",
        ),
        (
            "HOTKEYS START METRICS 2 CPU",
            "-ERR METRICS count does not match number of metric types provided|",
        ),
        ("HOTKEYS START METRICS 2 CPU CPU", "-ERR METRICS CPU defined more than once!|"),
        ("HOTKEYS START METRICS 2 NET NET", "-ERR METRICS NET defined more than once!|"),
        ("HOTKEYS START METRICS 1 CPU NET", "-ERR syntax error|"),
        ("HOTKEYS START METRICS 1 CPU COUNT 0", "-ERR COUNT must be between 1 and 64|"),
        ("HOTKEYS START METRICS 1 CPU COUNT 65", "-ERR COUNT must be between 1 and 64|"),
        ("HOTKEYS START METRICS 1 CPU DURATION 0", "-ERR DURATION must be between 1 and 1000000|"),
        (
            "HOTKEYS START METRICS 1 CPU DURATION 1000001",
            "-ERR DURATION must be between 1 and 1000000|",
        ),
        ("HOTKEYS START METRICS 1 CPU SAMPLE 0", "-ERR SAMPLE ratio must be positive|"),
        (
            "HOTKEYS START METRICS 1 CPU SLOTS 1 5",
            "-ERR SLOTS parameter cannot be used in non-cluster mode|",
        ),
        ("HOTKEYS START METRICS 1 CPU FOO", "-ERR syntax error|"),
        ("HOTKEYS START METRICS 1 CPU COUNT", "-ERR syntax error|"),
        ("HOTKEYS START METRICS 2 FOO NET", "+OK|"),
        ("HOTKEYS START METRICS 1 CPU", "-ERR hotkey tracking session already in progress|"),
        ("HOTKEYS RESET", "-ERR hotkey tracking session in progress, stop tracking first|"),
        ("HOTKEYS STOP", "+OK|"),
        ("HOTKEYS STOP", "$-1|", "_|"),
        ("HOTKEYS RESET", "+OK|"),
        ("HOTKEYS", "-ERR wrong number of arguments for 'hotkeys' command|"),
        ("HOTKEYS FOO", "-ERR unknown subcommand 'FOO'. Try HOTKEYS HELP.|"),
        ("HOTKEYS STOP x", "-ERR wrong number of arguments for 'hotkeys|stop' command|"),
    ],
    "least_recently_modified": [
        ("CONFIG SET maxmemory-policy allkeys-lrm", "+OK|"),
        (
            "CONFIG GET maxmemory-policy",
            "*2|$16|maxmemory-policy|$11|allkeys-lrm|",
            "%1|$16|maxmemory-policy|$11|allkeys-lrm|",
        ),
        ("CONFIG SET maxmemory-policy volatile-lrm", "+OK|"),
        ("SET k v", "+OK|"),
        ("OBJECT IDLETIME k", ":0|"),
        (
            "OBJECT FREQ k",
            "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Plea"
            "se note that when switching between policies at runtime LRU and LFU data will ta"
            "ke some time to adjust.|",
        ),
        (
            "CONFIG SET maxmemory-policy foo",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argum"
            "ent(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random"
            ", volatile-ttl, volatile-lrm, allkeys-lru, allkeys-lfu, allkeys-random, allkeys-"
            "lrm, noeviction|",
        ),
        ("CONFIG SET maxmemory-policy noeviction", "+OK|"),
    ],
    "what_commands_are": [
        (
            "COMMAND INFO msetex delex digest xcfgset xidmprecord xdelex xackdel",
            "*7|*10|$6|msetex|:-4|*3|+write|+denyoom|+movablekeys|:0|:0|:0|*3|+@write|+@strin"
            "g|+@slow|*2|$26|request_policy:multi_shard|$29|response_policy:all_succeeded|*1|"
            "*6|$5|flags|*2|+OW|+update|$12|begin_search|*4|$4|type|$5|index|$4|spec|*2|$5|in"
            "dex|:1|$9|find_keys|*4|$4|type|$6|keynum|$4|spec|*6|$9|keynumidx|:0|$8|firstkey|"
            ":1|$7|keystep|:2|*0|*10|$5|delex|:-2|*2|+write|+fast|:1|:1|:1|*3|+@write|+@strin"
            "g|+@fast|*0|*1|*6|$5|flags|*3|+RW|+delete|+variable_flags|$12|begin_search|*4|$4"
            "|type|$5|index|$4|spec|*2|$5|index|:1|$9|find_keys|*4|$4|type|$5|range|$4|spec|*"
            "6|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|*0|*10|$6|digest|:2|*2|+readonly|+fast"
            "|:1|:1|:1|*3|+@read|+@string|+@fast|*0|*1|*6|$5|flags|*2|+RO|+access|$12|begin_s"
            "earch|*4|$4|type|$5|index|$4|spec|*2|$5|index|:1|$9|find_keys|*4|$4|type|$5|rang"
            "e|$4|spec|*6|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|*0|*10|$7|xcfgset|:-2|*2|+w"
            "rite|+fast|:1|:1|:1|*3|+@write|+@stream|+@fast|*0|*1|*6|$5|flags|*2|+RW|+update|"
            "$12|begin_search|*4|$4|type|$5|index|$4|spec|*2|$5|index|:1|$9|find_keys|*4|$4|t"
            "ype|$5|range|$4|spec|*6|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|*0|*10|$11|xidmp"
            "record|:5|*3|+write|+denyoom|+fast|:1|:1|:1|*3|+@write|+@stream|+@fast|*0|*1|*6|"
            "$5|flags|*2|+RW|+update|$12|begin_search|*4|$4|type|$5|index|$4|spec|*2|$5|index"
            "|:1|$9|find_keys|*4|$4|type|$5|range|$4|spec|*6|$7|lastkey|:0|$7|keystep|:1|$5|l"
            "imit|:0|*0|*10|$6|xdelex|:-5|*2|+write|+fast|:1|:1|:1|*3|+@write|+@stream|+@fast"
            "|*0|*1|*6|$5|flags|*2|+RW|+delete|$12|begin_search|*4|$4|type|$5|index|$4|spec|*"
            "2|$5|index|:1|$9|find_keys|*4|$4|type|$5|range|$4|spec|*6|$7|lastkey|:0|$7|keyst"
            "ep|:1|$5|limit|:0|*0|*10|$7|xackdel|:-6|*2|+write|+fast|:1|:1|:1|*3|+@write|+@st"
            "ream|+@fast|*0|*1|*6|$5|flags|*3|+RW|+update|+delete|$12|begin_search|*4|$4|type"
            "|$5|index|$4|spec|*2|$5|index|:1|$9|find_keys|*4|$4|type|$5|range|$4|spec|*6|$7|"
            "lastkey|:0|$7|keystep|:1|$5|limit|:0|*0|",
            "*7|*10|$6|msetex|:-4|~3|+write|+denyoom|+movablekeys|:0|:0|:0|~3|+@write|+@strin"
            "g|+@slow|~2|$26|request_policy:multi_shard|$29|response_policy:all_succeeded|~1|"
            "%3|$5|flags|~2|+OW|+update|$12|begin_search|%2|$4|type|$5|index|$4|spec|%1|$5|in"
            "dex|:1|$9|find_keys|%2|$4|type|$6|keynum|$4|spec|%3|$9|keynumidx|:0|$8|firstkey|"
            ":1|$7|keystep|:2|~0|*10|$5|delex|:-2|~2|+write|+fast|:1|:1|:1|~3|+@write|+@strin"
            "g|+@fast|~0|~1|%3|$5|flags|~3|+RW|+delete|+variable_flags|$12|begin_search|%2|$4"
            "|type|$5|index|$4|spec|%1|$5|index|:1|$9|find_keys|%2|$4|type|$5|range|$4|spec|%"
            "3|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|~0|*10|$6|digest|:2|~2|+readonly|+fast"
            "|:1|:1|:1|~3|+@read|+@string|+@fast|~0|~1|%3|$5|flags|~2|+RO|+access|$12|begin_s"
            "earch|%2|$4|type|$5|index|$4|spec|%1|$5|index|:1|$9|find_keys|%2|$4|type|$5|rang"
            "e|$4|spec|%3|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|~0|*10|$7|xcfgset|:-2|~2|+w"
            "rite|+fast|:1|:1|:1|~3|+@write|+@stream|+@fast|~0|~1|%3|$5|flags|~2|+RW|+update|"
            "$12|begin_search|%2|$4|type|$5|index|$4|spec|%1|$5|index|:1|$9|find_keys|%2|$4|t"
            "ype|$5|range|$4|spec|%3|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|~0|*10|$11|xidmp"
            "record|:5|~3|+write|+denyoom|+fast|:1|:1|:1|~3|+@write|+@stream|+@fast|~0|~1|%3|"
            "$5|flags|~2|+RW|+update|$12|begin_search|%2|$4|type|$5|index|$4|spec|%1|$5|index"
            "|:1|$9|find_keys|%2|$4|type|$5|range|$4|spec|%3|$7|lastkey|:0|$7|keystep|:1|$5|l"
            "imit|:0|~0|*10|$6|xdelex|:-5|~2|+write|+fast|:1|:1|:1|~3|+@write|+@stream|+@fast"
            "|~0|~1|%3|$5|flags|~2|+RW|+delete|$12|begin_search|%2|$4|type|$5|index|$4|spec|%"
            "1|$5|index|:1|$9|find_keys|%2|$4|type|$5|range|$4|spec|%3|$7|lastkey|:0|$7|keyst"
            "ep|:1|$5|limit|:0|~0|*10|$7|xackdel|:-6|~2|+write|+fast|:1|:1|:1|~3|+@write|+@st"
            "ream|+@fast|~0|~1|%3|$5|flags|~3|+RW|+update|+delete|$12|begin_search|%2|$4|type"
            "|$5|index|$4|spec|%1|$5|index|:1|$9|find_keys|%2|$4|type|$5|range|$4|spec|%3|$7|"
            "lastkey|:0|$7|keystep|:1|$5|limit|:0|~0|",
        ),
        (
            "COMMAND INFO hotkeys|start hotkeys|get hotkeys|stop hotkeys|reset hotkeys|help",
            "*5|*10|$13|hotkeys|start|:-2|*2|+admin|+noscript|:0|:0|:0|*3|+@admin|+@slow|+@da"
            "ngerous|*1|$22|request_policy:special|*0|*0|*10|$11|hotkeys|get|:2|*2|+admin|+no"
            "script|:0|:0|:0|*3|+@admin|+@slow|+@dangerous|*3|$23|nondeterministic_output|$22"
            "|request_policy:special|$23|response_policy:special|*0|*0|*10|$12|hotkeys|stop|:"
            "2|*2|+admin|+noscript|:0|:0|:0|*3|+@admin|+@slow|+@dangerous|*1|$22|request_poli"
            "cy:special|*0|*0|*10|$13|hotkeys|reset|:2|*2|+admin|+noscript|:0|:0|:0|*3|+@admi"
            "n|+@slow|+@dangerous|*1|$22|request_policy:special|*0|*0|*10|$12|hotkeys|help|:2"
            "|*2|+loading|+stale|:0|:0|:0|*1|+@slow|*0|*0|*0|",
            "*5|*10|$13|hotkeys|start|:-2|~2|+admin|+noscript|:0|:0|:0|~3|+@admin|+@slow|+@da"
            "ngerous|~1|$22|request_policy:special|~0|~0|*10|$11|hotkeys|get|:2|~2|+admin|+no"
            "script|:0|:0|:0|~3|+@admin|+@slow|+@dangerous|~3|$23|nondeterministic_output|$22"
            "|request_policy:special|$23|response_policy:special|~0|~0|*10|$12|hotkeys|stop|:"
            "2|~2|+admin|+noscript|:0|:0|:0|~3|+@admin|+@slow|+@dangerous|~1|$22|request_poli"
            "cy:special|~0|~0|*10|$13|hotkeys|reset|:2|~2|+admin|+noscript|:0|:0|:0|~3|+@admi"
            "n|+@slow|+@dangerous|~1|$22|request_policy:special|~0|~0|*10|$12|hotkeys|help|:2"
            "|~2|+loading|+stale|:0|:0|:0|~1|+@slow|~0|~0|~0|",
        ),
    ],
}
