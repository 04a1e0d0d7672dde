/* Responses to DPDK's telemetry: tables by column, because release 22.11 can nest only arrays. */
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
	return rte_tel_data_start_dict(answer);
}

#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define NUMBER RTE_TEL_UINT_VAL
#define add_number rte_tel_data_add_array_uint
#else
#define NUMBER RTE_TEL_U64_VAL
#define add_number rte_tel_data_add_array_u64
#endif

struct rte_tel_data *vernier_telemetry_column(struct rte_tel_data *answer, const char *name,
					      int is_text)
{
	struct rte_tel_data *column = rte_tel_data_alloc();

	if (column == NULL)
		return NULL;
	rte_tel_data_start_array(column, is_text ? RTE_TEL_STRING_VAL : NUMBER);
	/* It is freed together with the response. */
	if (rte_tel_data_add_dict_container(answer, name, column, 0) == 0)
		return column;
	rte_tel_data_free(column);
	return NULL;
}

int vernier_telemetry_text(struct rte_tel_data *column, const char *text)
{
	return rte_tel_data_add_array_string(column, text);
}

int vernier_telemetry_number(struct rte_tel_data *column, uint64_t number)
{
	return add_number(column, number);
}
