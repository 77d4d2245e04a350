/*
 * gossip.h - what two nodes of a cluster tell each other: what has changed, and if their lists
 * still differ after that, what the one has and the other has not.
 *
 * Owns: nothing.
 * Threads: whoever holds the list of members.
 * Fails: a message that makes no sense is refused as a whole; a record in it that cannot be is
 * left out and counted.
 * Not here: who talks to whom and when (node/peers/rounds.c).
 *
 *     question  {protocol, cluster, from, port, sum, members, digest?}
 *     answer    {protocol, cluster, id, you, sum, members, want, came_ns, went_ns}
 *
 * While nothing changes, sums are equal and members are empty. A change is passed on to
 * PB_GOSSIP_TELL times log2 n others, a few in each message. A digest says the version of every
 * record; the answer brings those that are newer there and names those that it wants, which the
 * next question brings.
 */
#ifndef PB_CLUSTER_GOSSIP_H
#define PB_CLUSTER_GOSSIP_H

#include "cluster/members.h"

enum {
    PB_GOSSIP_PROTOCOL = 1,
    PB_GOSSIP_TELL = 3,
    PB_GOSSIP_CHANGES = 16,  /* records that go along with each message */
    PB_GOSSIP_RECORDS = 2048, /* limit of records in one message */
    PB_GOSSIP_NAME = 64,      /* bytes of a cluster's name */
};

struct pb_gossip_question {
    const char *cluster;
    const char *from; /* id; "": somebody who asks and cannot be asked */
    int port;         /* port that the sender listens on; 0: none */
    bool digest;      /* whether to name all records of the sender */
    const struct pb_json *want; /* ids that the receiver asked for, or NULL */
};

/* Marks what it says as told. */
void pb_gossip_ask(struct pb_buf *b, struct pb_members *m, const struct pb_gossip_question *q);

/* Checks who it is and what it speaks: PB_DENIED for another cluster or protocol. */
int pb_gossip_check(const struct pb_json *message, const char *cluster, struct pb_err *err);
/* Takes over the records of a question or an answer. */
void pb_gossip_take(struct pb_members *m, const struct pb_json *message, uint64_t now_ns);
/*
 * The answer to a question that was taken. you: the address that it came from, as text without a
 * port; came_ns: wall clock, when it came.
 */
void pb_gossip_answer(struct pb_buf *b, struct pb_members *m, const char *cluster,
                      const struct pb_json *question, const char *you, int64_t came_ns);

/*
 * Its clock minus ours, from the times of an answer and when its question went and it came here;
 * right within *ret_error. False when they make no sense.
 */
bool pb_gossip_clock(const struct pb_json *answer, int64_t sent_ns, int64_t received_ns,
                     int64_t *ret_offset, uint64_t *ret_error);

#endif
