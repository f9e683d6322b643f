#include "collectives/session/claim.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "collectives/error.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// The places of the words of a claim.
constexpr std::size_t kPid = 1, kHost = 3, kStart = 5, kWords = 6;

// Nothing if there is no such process, or it has ended and only its parent has not heard.
std::optional<std::string> start_of(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/stat");
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    // Whatever the program is called, behind its name come the state, and the start as the twentieth word.
    std::istringstream words(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
    std::string state, word;
    words >> state;
    constexpr int kBetween = 19;
    for (int i = 0; i < kBetween; ++i) words >> word;
    const bool lives = words && state != "Z" && state != "X";
    return lives ? std::optional(word) : std::nullopt;
}

// Says it to people, to whom boots, namespaces and clock ticks mean nothing.
std::string brief(const std::string& claim) {
    const auto words = split_at(claim, ' ');
    if (words.size() != kWords) return claim;
    return fmt::format("pid {} on {}", words[kPid], words[kHost].substr(0, words[kHost].find('/')));
}

}  // namespace

std::string own_claim(const std::string& host) {
    const std::string pid = std::to_string(::getpid());
    return fmt::format("pid {} on {} since {}", pid, host, start_of(pid).value_or("unknown"));
}

bool is_of_dead(const std::string& claim, const std::string& own) {
    const auto theirs = split_at(claim, ' ');
    const auto ours = split_at(own, ' ');
    if (theirs.size() != kWords || ours.size() != kWords || theirs[kHost] != ours[kHost]) return false;
    // Where processes are not shown, or those of another namespace, this one is not found either.
    const auto own_start = start_of(std::string(ours[kPid]));
    const bool is_shown = own_start && own_start == start_of("self");
    if (!is_shown || !whole_number<std::uint64_t>(theirs[kPid], 1)) return false;
    const auto start = start_of(std::string(theirs[kPid]));
    return !start || *start != theirs[kStart];
}

void claim_rank(Store& store, const std::string& key, int rank, const std::string& own) {
    std::string holder = store.compare_set(key, "", own);
    if (is_of_dead(holder, own)) holder = store.compare_set(key, holder, own);
    if (holder == own) return;
    // Containers of one name may differ in nothing else.
    const bool differ = brief(holder) != brief(own);
    throw CollectiveError(
        CollectiveErrorCode::system,
        fmt::format("join: rank {} is taken already, by {}; this is {}. Two processes have the same rank, or "
                    "the store is left over from another job",
                    rank, differ ? brief(holder) : holder, differ ? brief(own) : own),
        {rank}, "join");
}

}  // namespace detail
}  // namespace ddprun
