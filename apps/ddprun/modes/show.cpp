#include "apps/cli/print.hpp"
#include "apps/ddprun/modes/mode.hpp"

namespace ddprun::inline app {

bool claims_show(Call& call) { return call.line().show.has_value(); }

int run_show_mode(Call& call) {
    show_text(*call.line().show);
    return 0;
}

}  // namespace ddprun::inline app
