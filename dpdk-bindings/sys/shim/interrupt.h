#pragma once

/* Runs a function on EAL's interrupt thread, between two interrupts, and returns when it has ended. */
void vernier_interrupt_run(void (*run)(void *arg), void *arg);

/* Stops the handling of interrupts permanently. Call this before EAL's cleanup. */
void vernier_interrupt_park(void);
