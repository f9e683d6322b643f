#include "collectives/nccl/nccl_settings.hpp"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>

#include "collectives/error.hpp"
#include "rendezvous/system/whole_number.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline detail {
namespace {

constexpr const char* kVariable = "NCCL_ALGO";
// The names are in NCCL's spelling; it does not mind the case.
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

namespace {

[[noreturn]] void fail_setting(const std::string& what) {
    throw CollectiveError(CollectiveErrorCode::invalid_argument, "join: " + what, {}, "join");
}

}  // namespace

std::optional<NcclSettings> read_nccl_settings(const Environment& environment,
                                               const CommunicatorOptions& options, int local_rank) {
    const auto value = [&](const char* name) {
        const std::string* found = find_variable(environment, name);
        return found == nullptr ? std::string() : *found;
    };
    BackendChoice choice = options.backend;
    if (choice == BackendChoice::automatic) {
        const std::string wanted = value("DDPRUN_BACKEND");
        if (!wanted.empty() && wanted != "cpu" && wanted != "nccl") {
            fail_setting(fmt::format("DDPRUN_BACKEND='{}' is neither cpu nor nccl", wanted));
        }
        choice = wanted == "nccl" ? BackendChoice::nccl : BackendChoice::cpu;
    }
    if (choice == BackendChoice::cpu) return std::nullopt;
    NcclSettings settings{value("DDPRUN_NCCL_LIBRARY"), value("DDPRUN_CUDA_LIBRARY"), std::max(local_rank, 0),
                          options.reproducible};
    const std::string algorithms = value("NCCL_ALGO");
    if (options.reproducible && !algorithms.empty() && !reduces_by_rings(algorithms)) {
        fail_setting(
            fmt::format("NCCL_ALGO='{}' contradicts CommunicatorOptions::reproducible, which reduces by "
                        "rings: unset one of them, or set NCCL_ALGO=Ring",
                        algorithms));
    }
    const auto read_device = [&](const char* name) {
        const std::string text = value(name);
        const auto device = whole_number<int>(text, 0);
        if (!device) fail_setting(fmt::format("{}='{}' is not the number of a device", name, text));
        settings.device = *device;
    };
    if (options.device >= 0) {
        settings.device = options.device;
    } else if (!value("DDPRUN_DEVICE").empty()) {
        read_device("DDPRUN_DEVICE");
    } else if (local_rank < 0 && !value("LOCAL_RANK").empty()) {
        read_device("LOCAL_RANK");
    }
    return settings;
}

}  // namespace ddprun::inline detail
