/*
 * python_spans.h - the columns of python.spans.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/).
 */
#ifndef PB_SCHEMA_PYTHON_SPANS_H
#define PB_SCHEMA_PYTHON_SPANS_H

#define PB_PYTHON_SPANS_NAME "python.spans"
#define PB_PYTHON_SPANS_DOC "pieces of code timed with probing.span(), one row each when they end"

/* X(column, type, unit, doc) */
#define PB_PYTHON_SPANS(X)                                                                        \
    X(timestamp, TIME, "", "when it began")                                                       \
    X(name, NAME, "", "name given in the code")                                                   \
    X(duration_ms, REAL, "ms", "how long it took")                                                \
    X(depth, INT, "", "spans around it in the same thread")                                       \
    X(tid, INT, "", "thread")                                                                     \
    X(span_id, INT, "", "number of this span in the process")                                     \
    X(parent_id, INT, "", "the span around it")                                                   \
    X(attrs, TEXT, "", "attributes, JSON")                                                        \
    X(error, NAME, "", "type of the exception that ended it")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_SPANS)
#endif
