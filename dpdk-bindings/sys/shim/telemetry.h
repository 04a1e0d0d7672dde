/* Responses to DPDK's telemetry; part of shim.h. */
#pragma once

#include <stdint.h>

struct rte_tel_data;

typedef int (*vernier_telemetry_answer)(const char *command, const char *parameters,
					struct rte_tel_data *answer);

int vernier_telemetry_offer(const char *command, vernier_telemetry_answer answer, const char *help);
int vernier_telemetry_begin(struct rte_tel_data *answer);
struct rte_tel_data *vernier_telemetry_column(struct rte_tel_data *answer, const char *name,
					      int is_text);
int vernier_telemetry_text(struct rte_tel_data *column, const char *text);
int vernier_telemetry_number(struct rte_tel_data *column, uint64_t number);
