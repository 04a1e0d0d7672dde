/* Answers to DPDK's telemetry: lists of rows, each of names with texts or numbers. */
#include <errno.h>

#include <rte_telemetry.h>
#include <rte_version.h>

#include "telemetry.h"

int vernier_telemetry_offer(const char *command, vernier_telemetry_answer answer, const char *help)
{
	return rte_telemetry_register_cmd(command, answer, help);
}

int vernier_telemetry_begin(struct rte_tel_data *answer)
{
	return rte_tel_data_start_array(answer, RTE_TEL_CONTAINER);
}

struct rte_tel_data *vernier_telemetry_row(struct rte_tel_data *answer)
{
	struct rte_tel_data *row = rte_tel_data_alloc();

	if (row == NULL)
		return NULL;
	rte_tel_data_start_dict(row);
	/* It is freed with the answer. */
	if (rte_tel_data_add_array_container(answer, row, 0) == 0)
		return row;
	rte_tel_data_free(row);
	return NULL;
}

int vernier_telemetry_text(struct rte_tel_data *row, const char *name, const char *text)
{
	return rte_tel_data_add_dict_string(row, name, text);
}

int vernier_telemetry_number(struct rte_tel_data *row, const char *name, uint64_t number)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_add_dict_uint(row, name, number);
#else
	return rte_tel_data_add_dict_u64(row, name, number);
#endif
}
