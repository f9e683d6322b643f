#include "collectives/session/gathering.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "collectives/call/call.hpp"
#include "collectives/error.hpp"
#include "collectives/wire/frame.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// Gets what is known to be in the store.
constexpr std::chrono::milliseconds kStoredTimeout{10'000};

constexpr char kLate = 't';
constexpr char kDisagreement = 'm';

// Why there is no table: `!`, a letter for the code, the culprits, a line's end, a sentence.
std::string encode_failure(char code, const std::vector<int>& culprits, const std::string& text) {
    return fmt::format("!{}{}\n{}", code, encode_ranks(culprits), text);
}

bool expects(const Terms& terms, int rank) {
    return rank < terms.world_size && !std::binary_search(terms.excluded.begin(), terms.excluded.end(), rank);
}

struct RanksTerms {
    int rank;
    Terms terms;
};

std::string encode_terms(int rank, const Terms& terms) {
    return fmt::format("{} {} {}", rank, terms.world_size, encode_ranks(terms.excluded));
}

std::optional<RanksTerms> decode_terms(std::string_view text) {
    std::array<std::vector<int>, 3> fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const bool last = i + 1 == fields.size();
        const std::size_t end = last ? text.size() : text.find(' ');
        if (end == std::string_view::npos) return std::nullopt;
        auto ranks = decode_ranks(text.substr(0, end));
        if (!ranks || (!last && ranks->size() != 1)) return std::nullopt;
        fields[i] = std::move(*ranks);
        text.remove_prefix(last ? end : end + 1);
    }
    return RanksTerms{fields[0].front(), {fields[1].front(), std::move(fields[2])}};
}

std::string choice_of(int rank, const Terms& terms, const Terms& others) {
    if (terms.world_size != others.world_size)
        return fmt::format("rank {} expects {} ranks", rank, terms.world_size);
    return fmt::format("rank {} excludes {}", rank,
                       terms.excluded.empty() ? "nobody" : list_of_ranks(terms.excluded));
}

}  // namespace

Gathering::Gathering(Store& store, GatheringNames names, std::string prefix, int rank, Terms terms)
    : store_(store), names_(names), prefix_(std::move(prefix)), rank_(rank), terms_(std::move(terms)) {
    for (int i = 0; i < terms_.world_size; ++i) {
        if (expects(terms_, i)) expected_.push_back(i);
    }
    new_rank_ =
        static_cast<int>(std::lower_bound(expected_.begin(), expected_.end(), rank_) - expected_.begin());
}

std::string Gathering::key(const char* name, int rank) const {
    return fmt::format("{}{}/{}", prefix_, name, rank);
}

Departure Gathering::departure() const {
    return {store_, prefix_, new_rank_, static_cast<int>(expected_.size())};
}

Membership Gathering::run(const Member& self, Deadline deadline) {
    require_agreement();
    store_.set(key("member", rank_), to_string(self));
    if (store_.add(prefix_ + "arrived", 1) >= static_cast<std::int64_t>(expected_.size())) make_table();
    const std::string decision = await_decision(deadline);
    throw_if_failure(decision);
    auto membership = parse_table(decision, static_cast<int>(expected_.size()));
    if (!membership) fail(Errc::malformed, "what the store has under " + prefix_ + "table is no table");
    membership->rank = new_rank_;
    return *membership;
}

void Gathering::require_agreement() {
    const auto first = decode_terms(store_.compare_set(prefix_ + "terms", "", encode_terms(rank_, terms_)));
    if (!first) fail(Errc::malformed, "what the store has under " + prefix_ + "terms is no list of ranks");
    if (first->terms == terms_) return;
    const std::string failure =
        encode_failure(kDisagreement, {first->rank, rank_},
                       fmt::format("the ranks disagree: {}, {}", choice_of(first->rank, first->terms, terms_),
                                   choice_of(rank_, terms_, first->terms)));
    // One whom the others do not expect spoils nothing for them.
    if (expects(first->terms, rank_)) throw_if_failure(decide(failure));
    throw_if_failure(failure);
}

std::string Gathering::decide(const std::string& decision) {
    const std::string decided = store_.compare_set(prefix_ + "table", "", decision);
    // PyTorch's store wakes nobody when a key comes into being by compare_set.
    if (decided == decision) store_.set(prefix_ + "table", decision);
    return decided;
}

void Gathering::throw_if_failure(const std::string& decision) const {
    if (decision.size() < 2 || decision[0] != '!') return;
    const std::size_t end = std::min(decision.find('\n'), decision.size());
    const auto culprits = decode_ranks(std::string_view(decision).substr(2, end - 2));
    if (!culprits) fail(Errc::malformed, "what the store has under " + prefix_ + "table is no decision");
    const auto code = decision[1] == kLate ? CollectiveErrorCode::timed_out : CollectiveErrorCode::mismatch;
    const std::string text = decision.substr(std::min(end + 1, decision.size()));
    throw CollectiveError(code, fmt::format("{}: {}", names_.operation, text), *culprits, names_.operation);
}

std::vector<int> Gathering::missing() {
    std::vector<int> missing;
    for (const int rank : expected_) {
        if (!store_.check_keys({key("member", rank)})) missing.push_back(rank);
    }
    return missing;
}

void Gathering::make_table() {
    std::vector<Member> members;
    for (const int rank : expected_) {
        auto member = parse_member(store_.get(key("member", rank), kStoredTimeout));
        if (!member)
            fail(Errc::malformed, "what the store has under " + key("member", rank) + " is no member");
        members.push_back(std::move(*member));
    }
    decide(table_text(random_nonce(), members));
}

std::string Gathering::await_decision(Deadline deadline) {
    const std::string table = prefix_ + "table";
    try {
        return store_.get(table, time_until(deadline));
    } catch (const boost::system::system_error& error) {
        if (error.code() != make_error_code(Errc::timed_out)) throw;
    }
    const std::vector<int> late = missing();
    // The last to come has died before it could decide.
    if (late.empty()) {
        make_table();
        return store_.get(table, kStoredTimeout);
    }
    return decide(encode_failure(
        kLate, late,
        fmt::format("of {} {} these have not come in time (CommunicatorOptions::join_timeout): {}",
                    expected_.size(), names_.members, list_of_ranks(late))));
}

}  // namespace detail
}  // namespace ddprun
