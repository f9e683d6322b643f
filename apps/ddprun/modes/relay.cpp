#include "launcher/start/relay.hpp"

#include "apps/ddprun/modes/mode.hpp"
#include "launcher/start/bootstrap.hpp"

namespace ddprun::inline app {

bool claims_relay(Call& call) { return !call.words().empty() && call.words().front() == kRelayFlag; }

int run_relay_mode(Call& call) { return run_relay({call.words().begin() + 1, call.words().end()}); }

}  // namespace ddprun::inline app
