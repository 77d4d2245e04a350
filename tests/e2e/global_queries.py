"""Random statements over python.facts: all that SQL has, in any mixture that means one thing."""
import random

NUMBERS = ("a", "b", "x", "rank")
KEYS = ("s", "b", "flag", "rank", "host", "a % 5", "length(s)", "coalesce(b, -1)",
        "CASE WHEN a > 0 THEN 'up' ELSE 'down' END")


class Dice:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *of):
        return self.random.choice(of)

    def chance(self, share):
        return self.random.random() < share

    def some(self, of, most):
        return self.random.sample(of, self.random.randint(1, most))

    def number(self, prefix=""):
        return self.one(*(prefix + name for name in NUMBERS), "%sa * 2 + 1" % prefix,
                        "abs(%sa)" % prefix, "coalesce(%sx, 0)" % prefix)

    def test(self, prefix=""):
        p = prefix
        return self.one("%sa > %d" % (p, self.random.randint(-40, 40)), "%sx IS NOT NULL" % p,
                        "%sb IN (1, 2)" % p, "%ss LIKE '%%e%%'" % p, "%sflag" % p,
                        "NOT %sflag" % p, "%sa BETWEEN -10 AND 20" % p,
                        "%ss = 'it''s'" % p, "%srank <> 3" % p, "%sx < 0 OR %sb IS NULL" % (p, p),
                        "length(%ss) > 3" % p, "%shost > 'node-a'" % p, "1 = 1", "%sa = 1000" % p)

    def where(self, prefix=""):
        if self.chance(0.3):
            return ""
        return " WHERE " + " AND ".join("(%s)" % self.test(prefix)
                                        for _ in range(self.random.randint(1, 3)))

    def aggregate(self):
        of = self.number()
        call = self.one("count(*)", "count(%s)" % of, "sum(%s)" % of, "min(%s)" % of,
                        "max(%s)" % of, "avg(%s)" % of, "min(s)", "max(s)", "bool_or(flag)",
                        "bool_and(flag)", "avg(%s) FILTER (WHERE %s)" % (of, self.test()),
                        "count(*) FILTER (WHERE %s)" % self.test())
        if self.chance(0.3):
            call = self.one("count(DISTINCT s)", "median(%s)" % of, "quantile_cont(%s, 0.9)" % of,
                            "round(stddev_pop(%s), 6)" % of, "sum(DISTINCT a)",
                            "string_agg(s, ',' ORDER BY s)", "quantile_disc(a, 0.25)",
                            "approx_count_distinct(1)", "count(DISTINCT rank)")
        return self.one(call, call, call, "%s + 1" % call if "s)" not in call and
                        "bool" not in call and "string" not in call else call)

    def grouped(self):
        keys = self.some(KEYS, 2) if self.chance(0.8) else []
        calls = [self.aggregate() for _ in range(self.random.randint(1, 3))]
        items = keys + ["%s AS m%d" % (call, i) for i, call in enumerate(calls)]
        how = self.one("plain", "number", "all", "name")
        if how == "name":
            items = ["%s AS k%d" % (key, i) for i, key in enumerate(keys)] + items[len(keys):]
        by = {"plain": ", ".join(keys), "number": ", ".join(str(i + 1) for i in range(len(keys))),
              "all": "ALL", "name": ", ".join("k%d" % i for i in range(len(keys)))}[how]
        text = "SELECT %s FROM python.facts%s" % (", ".join(items), self.where())
        if keys:
            text += " GROUP BY " + by
        if keys and self.chance(0.3):
            text += " HAVING " + self.one("count(*) > 20", "sum(a) > 0", "max(x) > 100",
                                          "count(*) > 3 AND min(a) < 0")
        return text + self.end()

    def end(self):
        if self.chance(0.4):
            return ""
        text = " ORDER BY ALL"
        return text + self.one("", " LIMIT 5", " LIMIT 7 OFFSET 3", " LIMIT 1000")

    def plain(self):
        items = ", ".join(self.some(("a", "b", "x", "s", "flag", "rank", "host", "a + b AS c",
                                     "upper(s) AS u"), 4))
        distinct = self.one("", "", "DISTINCT ")
        if self.chance(0.3):
            return ("SELECT a, b, x, s, rank FROM python.facts%s ORDER BY %s LIMIT %d"
                    % (self.where(), self.one("a, b, x, s, rank", "rank DESC, a, b, x, s",
                                              "abs(a), a, x DESC, b, s, rank"),
                       self.one(1, 9, 400)))
        return "SELECT %s%s FROM python.facts%s%s" % (distinct, items, self.where(), self.end())

    def joined(self):
        return ("SELECT l.rank, r.rank AS other, count(*), sum(l.a * r.a)%s FROM python.facts l %s "
                "python.facts r %s%s GROUP BY ALL%s" % (
                    self.one("", ", avg(r.x)", ", max(l.s)"), self.one("JOIN", "JOIN", "LEFT JOIN"),
                    self.one("ON l.a = r.a AND l.b = r.b", "USING (a, b)",
                             "ON l.a = r.a AND r.rank = 2 AND l.s = r.s"),
                    self.where(self.one("l.", "r.")), self.end()))

    def windowed(self):
        return ("SELECT rank, a, x, %s AS w FROM python.facts%s%s" % (
            self.one("row_number() OVER (PARTITION BY rank ORDER BY a, x, b, s, flag)",
                     "sum(a) OVER (PARTITION BY s)", "rank() OVER (ORDER BY a)",
                     "avg(x) OVER (PARTITION BY b, flag)"), self.where(), " ORDER BY ALL LIMIT 50"))

    def nested(self):
        return self.one(
            "WITH w AS (SELECT rank, max(a) AS m FROM python.facts%s GROUP BY rank) SELECT f.rank, "
            "count(*) FROM python.facts f JOIN w ON f.rank = w.rank AND f.a = w.m GROUP BY ALL"
            % self.where(),
            "SELECT s, count(*) FROM python.facts WHERE a > (SELECT avg(a) FROM python.facts%s) "
            "GROUP BY s" % self.where(),
            "SELECT count(*) FROM python.facts f WHERE EXISTS (SELECT 1 FROM python.facts g WHERE "
            "g.a = f.a AND g.rank <> f.rank AND %s)" % self.test("g."),
            "SELECT rank, m FROM (SELECT rank, avg(x) AS m FROM python.facts%s GROUP BY rank) "
            "WHERE m > (SELECT median(x) FROM python.facts)" % self.where(),
            "SELECT a, count(*) FROM python.facts%s GROUP BY a UNION ALL SELECT b, sum(a) FROM "
            "python.facts%s GROUP BY b" % (self.where(), self.where()),
            "SELECT s FROM python.facts%s INTERSECT SELECT s FROM python.facts%s"
            % (self.where(), self.where()),
            "SELECT rank, s, n FROM (SELECT rank, s, count(*) AS n FROM python.facts GROUP BY ALL) "
            "QUALIFY row_number() OVER (PARTITION BY rank ORDER BY n DESC, s) = 1")


def statement(seed):
    dice = Dice(seed)
    kind = dice.one("grouped", "grouped", "grouped", "plain", "plain", "joined", "windowed",
                    "nested")
    return getattr(dice, kind)()


# Each says something that a node alone does not know, or that changes on its way.
TRAPS = (
    # One row makes several or none, behind a LIMIT.
    "SELECT unnest(CASE WHEN a < 45 THEN [] ELSE [1, 2] END) AS u, a FROM python.facts ORDER BY a "
    "LIMIT 5",
    "SELECT a, generate_subscripts([1, 2], 1) AS i FROM python.facts ORDER BY ALL LIMIT 3",
    # Macros with aggregates in them.
    "SELECT geomean(abs(a) + 1) FROM python.facts LIMIT 1",
    "SELECT s, weighted_avg(a, abs(b)), count(*) FROM python.facts GROUP BY s",
    # Samples: once, of all rows, and before the filter.
    "SELECT count(*) FROM python.facts USING SAMPLE 10",
    "SELECT count(*) BETWEEN 600 AND 1200 FROM python.facts TABLESAMPLE 50% (bernoulli)",
    "SELECT count(*) < 100 FROM (SELECT a FROM python.facts WHERE rank = 0 USING SAMPLE 100 ROWS)",
    # Texts that are compared in another way.
    "SELECT lower((CASE WHEN rank < 2 THEN upper(s) ELSE s END) COLLATE NOCASE) AS k, count(*) "
    "FROM python.facts GROUP BY 1",
    "SELECT count(*) FROM (SELECT (CASE WHEN rank < 2 THEN upper(s) ELSE s END) COLLATE NOCASE AS "
    "k FROM python.facts GROUP BY k)",
    # A row as one value, columns by their number, columns under other names.
    "SELECT count(DISTINCT f) FROM python.facts f",
    "SELECT struct_extract(facts, 'a') AS v FROM python.facts ORDER BY ALL LIMIT 5",
    "SELECT count(#3) FROM python.facts",
    "SELECT sum(p), count(q) FROM python.facts AS f(t, p, q)",
    "SELECT count(DISTINCT t) FROM python.facts AS f(t)",
    "SELECT count(*) FROM python.facts AS f(a, b) WHERE b > 45",
    # Joins that look at rows which a filter behind them drops. It asks for x alone: of rows with
    # the same x any may be the one that is joined.
    "SELECT count(*), sum(r.x) FROM (SELECT DISTINCT rank, a FROM python.facts) l ASOF JOIN "
    "python.facts r ON l.a >= r.x WHERE (r.x * 8)::BIGINT % 3 = 0",
    # Types that files keep differently, or not at all.
    "SELECT (INTERVAL (a) SECOND + INTERVAL '0.000123' SECOND)::VARCHAR AS i, count(*) FROM "
    "python.facts GROUP BY i",
    "SELECT max(INTERVAL (a) SECOND + INTERVAL '0.000123' SECOND)::VARCHAR FROM python.facts",
    "SELECT avg(INTERVAL (a) SECOND)::VARCHAR FROM python.facts",
    "SELECT k::VARCHAR, n FROM (SELECT [a::HUGEINT * 10::HUGEINT ** 20 + 1] AS k, count(*) AS n "
    "FROM python.facts GROUP BY k)",
    "SELECT [a::HUGEINT * 100000000000000000000::HUGEINT + 1]::VARCHAR AS k, count(*) FROM "
    "python.facts GROUP BY [a::HUGEINT * 100000000000000000000::HUGEINT + 1]",
    "SELECT s::ENUM('red', 'green', 'blue', 'it''s', '') AS l, count(*) FROM python.facts GROUP BY "
    "l ORDER BY l LIMIT 2",
    "SELECT min(s::ENUM('red', 'green', 'blue', 'it''s', '')) FROM python.facts",
    # Names of arguments and of columns.
    "SELECT struct_pack(p := s)::VARCHAR, struct_pack(q := s)::VARCHAR, count(*) FROM python.facts "
    "GROUP BY ALL",
    "SELECT s AS \"we \"\"i\\rd\", count(*) FROM python.facts GROUP BY 1 ORDER BY \"we \"\"i\\rd\" "
    "LIMIT 2",
)
