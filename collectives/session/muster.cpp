#include "collectives/session/muster.hpp"

#include <algorithm>

#include "collectives/call/rank_list.hpp"
#include "collectives/error.hpp"
#include "collectives/session/join.hpp"
#include "collectives/session/store_wait.hpp"
#include "collectives/wire/nonce.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

// For what is known to be in the store.
constexpr std::chrono::milliseconds kStoredPatience{10'000};
constexpr char kLate = 't';
constexpr char kDisagreement = 'm';

std::string name_of_prefix(const MusterPlace& place) {
    return "ddprun/shrunk/" + std::to_string(place.generation) + '/' + hex_of(place.nonce) + '/' +
           std::to_string(place.attempt) + '/';
}

// Why there is no table: `!`, a letter for the code, the culprits, a line's end, a sentence.
std::string encode_failure(char code, const std::vector<int>& culprits, const std::string& text) {
    return std::string("!") + code + encode_ranks(culprits) + '\n' + text;
}

void throw_if_failure(const std::string& decision) {
    if (decision.size() < 2 || decision[0] != '!') return;
    const std::size_t end = std::min(decision.find('\n'), decision.size());
    const auto culprits = decode_ranks(std::string_view(decision).substr(2, end - 2));
    if (!culprits) fail(Errc::malformed, "what the store has for a shrunk communicator is no decision");
    const auto code = decision[1] == kLate ? CollectiveErrorCode::timed_out : CollectiveErrorCode::mismatch;
    throw CollectiveError(code, "shrink: " + decision.substr(std::min(end + 1, decision.size())), *culprits,
                          "shrink");
}

std::string choice_of(int rank, const std::vector<int>& excluded) {
    const std::string name = "rank " + std::to_string(rank);
    return name + " excludes " + (excluded.empty() ? "nobody" : list_of_ranks(excluded));
}

}  // namespace

Muster::Muster(Store& store, const MusterPlace& place, std::vector<int> excluded)
    : store_(store), place_(place), excluded_(std::move(excluded)), prefix_(name_of_prefix(place)) {
    for (int rank = 0; rank < place_.world_size; ++rank) {
        if (!std::binary_search(excluded_.begin(), excluded_.end(), rank)) survivors_.push_back(rank);
    }
}

std::string Muster::key(const char* name, int rank) const {
    return prefix_ + name + '/' + std::to_string(rank);
}

int Muster::new_rank() const {
    return static_cast<int>(std::lower_bound(survivors_.begin(), survivors_.end(), place_.rank) -
                            survivors_.begin());
}

Farewell Muster::farewell() const {
    return {store_, prefix_, new_rank(), static_cast<int>(survivors_.size())};
}

Membership Muster::run(const Member& self, Clock::time_point deadline) {
    require_agreement();
    store_.set(key("member", place_.rank), to_string(self));
    const std::string decision = await_decision(deadline);
    throw_if_failure(decision);
    auto membership = parse_table(decision, static_cast<int>(survivors_.size()));
    if (!membership) fail(Errc::malformed, "what the store has under " + prefix_ + "table is no table");
    membership->rank = new_rank();
    membership->generation = place_.generation;
    return *membership;
}

void Muster::require_agreement() {
    const std::string own = std::to_string(place_.rank) + ' ' + encode_ranks(excluded_);
    const std::string first = store_.compare_set(prefix_ + "excluded", "", own);
    const std::size_t blank = std::min(first.find(' '), first.size() - 1);
    const auto rank = decode_ranks(std::string_view(first).substr(0, blank));
    const auto theirs = decode_ranks(std::string_view(first).substr(blank + 1));
    if (!rank || rank->size() != 1 || !theirs)
        fail(Errc::malformed, "what the store has under " + prefix_ + "excluded is no list of ranks");
    if (*theirs == excluded_) return;
    const std::string text =
        "the ranks disagree: " + choice_of(rank->front(), *theirs) + ", " + choice_of(place_.rank, excluded_);
    const std::string failure = encode_failure(kDisagreement, {rank->front(), place_.rank}, text);
    // One who is excluded spoils nothing for the others.
    const bool is_member = !std::binary_search(theirs->begin(), theirs->end(), place_.rank);
    if (is_member) throw_if_failure(decide(failure));
    throw_if_failure(failure);
}

std::string Muster::decide(const std::string& decision) {
    return store_.compare_set(prefix_ + "table", "", decision);
}

std::vector<int> Muster::try_to_make_table() {
    std::vector<int> missing;
    for (const int rank : survivors_) {
        if (!store_.check_keys({key("member", rank)})) missing.push_back(rank);
    }
    if (!missing.empty()) return missing;
    std::vector<Member> members;
    for (const int rank : survivors_) {
        const std::string text = store_.get(key("member", rank), kStoredPatience);
        auto member = parse_member(text);
        if (!member)
            fail(Errc::malformed, "what the store has under " + key("member", rank) + " is no member");
        members.push_back(std::move(*member));
    }
    decide(table_text(random_nonce(), members));
    return {};
}

std::string Muster::await_decision(Clock::time_point deadline) {
    const std::string table = prefix_ + "table";
    try_to_make_table();
    try {
        return store_.get(table, rest_until(deadline));
    } catch (const boost::system::system_error& error) {
        if (!is_timeout(error)) throw;
    }
    // The last to come may have died before it could decide.
    const std::vector<int> missing = try_to_make_table();
    return decide(encode_failure(kLate, missing,
                                 "of " + std::to_string(survivors_.size()) +
                                     " survivors these have not come in time " +
                                     "(CommunicatorOptions::join_timeout): " + list_of_ranks(missing)));
}

}  // namespace ddprun
