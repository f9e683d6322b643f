#include "apps/ddprun/modes/mode.hpp"
#include "apps/ddprun/plan/adapted_task.hpp"

namespace ddprun::inline app {

bool claims_adapt(Call& call) { return call.line().adapt && !call.line().dry_run; }

int run_adapt_mode(Call& call) { become_task(find_adapted_task(call.plan(), call.called())); }

}  // namespace ddprun::inline app
