#include <cstdio>

#include "apps/ddprun/modes/mode.hpp"
#include "apps/ddprun/plan/job_secret.hpp"
#include "rendezvous/secure/secret.hpp"

namespace ddprun::inline app {

bool claims_secret(Call& call) { return call.line().makes_secret; }

int run_secret_mode(Call&) {
    const auto path = users_secret_file();
    if (const auto wrong = make_secret_file(path)) throw UsageError("--make-secret: " + *wrong);
    std::printf("%s\n", path.c_str());
    return 0;
}

}  // namespace ddprun::inline app
