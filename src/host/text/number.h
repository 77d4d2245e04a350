/*
 * number.h - numbers as text.
 *
 * Owns: nothing. Threads: any. Fails: never.
 * Not here: numbers in JSON (json_write.h), aligned in tables (display/).
 */
#ifndef PB_HOST_TEXT_NUMBER_H
#define PB_HOST_TEXT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

enum { PB_NUMBER_TEXT = 40 };

/*
 * The fewest digits that read back as the same finite number, of a float if is_single. format: 'e'
 * for d.ddde+xx always, 'g' for that or plain digits, whichever is shorter.
 */
void pb_number_shortest(double v, bool is_single, char format, char buf[PB_NUMBER_TEXT]);

/* "" for one, else the ending: "%zu thread%s", n, pb_plural(n, "s"). */
static inline const char *pb_plural(size_t n, const char *ending)
{
    return n == 1 ? "" : ending;
}

#endif
