#include "launcher/look/pthread_ids.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace ddprun {
inline namespace launch {
namespace {

// The number is at 720 of glibc's structure on x86-64, and nearer to its begin elsewhere.
constexpr std::size_t kWords = 256;
using PthreadWords = std::array<pid_t, kWords>;

}  // namespace

std::vector<pid_t> pthread_ids(const MemoryReader& memory, std::span<const std::uintptr_t> pthreads,
                               std::span<const pid_t> threads) {
    std::vector<pid_t> ids(pthreads.size(), 0);
    const std::set<pid_t> known(threads.begin(), threads.end());
    std::vector<PthreadWords> structures;
    std::vector<std::size_t> owners;
    for (std::size_t i = 0; i < pthreads.size(); ++i) {
        const auto words = memory.value<PthreadWords>(pthreads[i]);
        if (!words) continue;
        structures.push_back(*words);
        owners.push_back(i);
    }
    for (std::size_t place = 0; place < kWords && !structures.empty(); ++place) {
        std::set<pid_t> here;
        for (const auto& words : structures)
            if (known.contains(words[place])) here.insert(words[place]);
        if (here.size() != structures.size()) continue;
        for (std::size_t i = 0; i < owners.size(); ++i) ids[owners[i]] = structures[i][place];
        break;
    }
    return ids;
}

}  // namespace launch
}  // namespace ddprun
