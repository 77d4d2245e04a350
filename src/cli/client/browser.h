/*
 * browser.h - the user's own browser, where there is one.
 *
 * Owns: a file that leads to the address, below the user's runtime folder, removed a moment later.
 * Threads: one.
 * Fails: then there is no browser, which the caller says.
 * Not here: addresses.
 */
#ifndef PB_CLI_CLIENT_BROWSER_H
#define PB_CLI_CLIENT_BROWSER_H

#include <stdbool.h>

/*
 * Opens the address. The browser is given a file of mode 0600 that leads to it, and not the address
 * itself: command lines can be read by every user of the machine.
 */
bool pb_browser_open(const char *address);

#endif
