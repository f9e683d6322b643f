#include "collectives/nccl/nccl_rings.hpp"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline detail {
namespace {

constexpr const char* kVariable = "NCCL_ALGO";
// In NCCL's spelling; it does not mind the case.
constexpr std::array<const char*, 3> kReductions{"allreduce", "reduce", "reducescatter"};

bool equal(const std::string& left, const char* right) { return ::strcasecmp(left.c_str(), right) == 0; }

// How many objects need the variable. The environment belongs to the process, so this does, too.
struct Users {
    std::mutex mutex;
    int count = 0;
};

Users& users() {
    static const std::reference_wrapper<Users> one(*new Users);
    return one;
}

}  // namespace

const char* nccl_rings(int version) noexcept {
    return version >= kNcclVersionWithAlgoByOperation ? "allreduce:ring;reduce:ring;reducescatter:ring"
                                                      : "Ring";
}

bool reduces_by_rings(std::string_view algorithms) {
    // "ring,tree;allreduce:ring": for all operations, then for one.
    std::array<bool, kReductions.size()> ring{};
    while (!algorithms.empty()) {
        const auto end = std::min(algorithms.find(';'), algorithms.size());
        const std::string_view entry = algorithms.substr(0, end);
        algorithms.remove_prefix(std::min(end + 1, algorithms.size()));
        const auto colon = entry.find(':');
        const bool of_one = colon != std::string_view::npos;
        const bool is_ring = equal(std::string(of_one ? entry.substr(colon + 1) : entry), "ring");
        for (std::size_t i = 0; i < kReductions.size(); ++i) {
            if (!of_one || equal(std::string(entry.substr(0, colon)), kReductions[i])) ring[i] = is_ring;
        }
    }
    return std::all_of(ring.begin(), ring.end(), [](bool is) { return is; });
}

NcclRings::NcclRings(int version) {
    const std::lock_guard lock(users().mutex);
    const Environment environment = current_environment();
    const std::string* set = find_variable(environment, kVariable);
    counted_ = users().count > 0 || set == nullptr || set->empty();
    if (counted_ && users().count++ == 0) ::setenv(kVariable, nccl_rings(version), 1);
}

NcclRings::~NcclRings() {
    const std::lock_guard lock(users().mutex);
    if (counted_ && --users().count == 0) ::unsetenv(kVariable);
}

}  // namespace ddprun::inline detail
