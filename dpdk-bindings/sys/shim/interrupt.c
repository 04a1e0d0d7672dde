/* Runs functions on EAL's interrupt thread, which calls drivers back and never ends. It handles one
 * interrupt at a time, and a descriptor of our own that is ready counts as one. An alarm
 * (rte_alarm.h) runs there,
 * too, but rte_eal_cleanup waits for the end of alarms. */
/* For the handles of interrupt sources, which have these names since 22.11. */
#define ALLOW_EXPERIMENTAL_API
#include <semaphore.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "interrupt.h"

struct call {
	void (*run)(void *arg);
	void *arg;
	struct rte_intr_handle *handle;
	sem_t done;
};

static void call_run(void *arg)
{
	struct call *call = arg;
	uint64_t ready;

	if (read(rte_intr_fd_get(call->handle), &ready, sizeof(ready)) != sizeof(ready))
		return;
	call->run(call->arg);
	sem_post(&call->done);
}

static void call_park(void *arg)
{
	struct call *call = arg;

	sem_post(&call->done);
	for (;;)
		pause();
}

/* Runs a callback on the interrupt thread and waits for it; returns 0 if there is no memory or no descriptor. */
static int call_back(rte_intr_callback_fn function, struct call *call)
{
	int is_called = 0, fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);

	call->handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	sem_init(&call->done, 0, 0);
	if (fd >= 0 && call->handle != NULL && rte_intr_fd_set(call->handle, fd) == 0 &&
	    rte_intr_type_set(call->handle, RTE_INTR_HANDLE_EXT) == 0)
		is_called = rte_intr_callback_register(call->handle, function, call) == 0;
	if (is_called)
		while (sem_wait(&call->done) != 0)
			;
	if (is_called && function == call_run)
		(void)rte_intr_callback_unregister_sync(call->handle, function, call);
	if (fd >= 0 && !(is_called && function == call_park))
		close(fd);
	rte_intr_instance_free(call->handle);
	sem_destroy(&call->done);
	return is_called;
}

void vernier_interrupt_run(void (*run)(void *arg), void *arg)
{
	struct call call = {.run = run, .arg = arg};

	if (rte_thread_is_intr() || !call_back(call_run, &call))
		run(arg);
}

/* rte_eal_cleanup unmaps the memory that holds drivers' interrupt sources, but does not stop the
 * thread that uses them (eal_interrupts.c): a remaining source, or an interrupt at that moment,
 * would crash the program with SIGSEGV. */
void vernier_interrupt_park(void)
{
	struct call call = {0};

	(void)call_back(call_park, &call);
}
