// Which variables of a launcher's environment decide what it does: what run.json keeps of it. Pure.
#pragma once

#include <string_view>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

// Options (DDPRUN_*, PET_*), GPU masks, MASTER_ADDR and the like, Python and its environment, and what schedulers, process
// launchers and platforms tell.
bool is_deciding(std::string_view name);

// Those of the environment that decide and are no secrets. What the worker of an outer job was told by its own launcher is
// none of it; in there nothing but options, masks and Python decide.
Environment deciding_variables(const Environment& environment);

// `own` with what was recorded laid over it. What decides, too, but was not there then is taken out, so that the
// variables of two jobs are never mixed; secrets stay.
Environment as_recorded(Environment own, const Environment& recorded);

}  // namespace ddprun::inline launch
