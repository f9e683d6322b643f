#include "collectives/session/join.hpp"

#include <algorithm>
#include <cerrno>

#include "collectives/call/rank_list.hpp"
#include "collectives/error.hpp"
#include "collectives/session/store_wait.hpp"
#include "collectives/wire/nonce.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

constexpr char kNoTable = '!';

}  // namespace

Join::Join(Store& store, int rank, int world_size, std::uint32_t generation, std::string owner)
    : store_(store),
      rank_(rank),
      world_size_(world_size),
      generation_(generation),
      owner_(std::move(owner)),
      prefix_("ddprun/communicators/" + std::to_string(generation) + '/') {}

Membership Join::run(const Member& self, Clock::time_point deadline) {
    claim_rank();
    instance_ = store_.add(own_key("instance"), 1);
    store_.set(key("member", rank_), to_string(self));
    Membership membership = rank_ == 0 ? make_table(deadline) : read_table(deadline);
    membership.rank = rank_;
    membership.generation = generation_;
    membership.communicator = static_cast<std::uint32_t>(instance_);
    return membership;
}

void Join::claim_rank() {
    const std::string holder = store_.compare_set(own_key("owner"), "", owner_);
    if (holder == owner_) return;
    throw CollectiveError(
        CollectiveErrorCode::system,
        "join: rank " + std::to_string(rank_) + " is taken already, by " + holder + "; this is " + owner_ +
            ". Two processes have the same rank, or the store is left over " + "from another job",
        {rank_}, "join");
}

Membership Join::make_table(Clock::time_point deadline) {
    std::vector<std::string> keys;
    for (int i = 0; i < world_size_; ++i) keys.push_back(key("member", i));
    try {
        store_.wait(keys, rest_until(deadline));
    } catch (const boost::system::system_error& error) {
        if (!is_timeout(error)) throw;
        fail_missing(missing_ranks(), true);
    }
    std::vector<Member> members;
    for (const std::string& member_key : keys) {
        auto member = parse_member(store_.get(member_key, rest_until(deadline)));
        if (!member) fail(Errc::malformed, "what the store has under " + member_key + " is no member");
        members.push_back(std::move(*member));
    }
    const std::string table = table_text(random_nonce(), members);
    store_.set(table_key(), table);
    return *parse_table(table, world_size_);
}

Membership Join::read_table(Clock::time_point deadline) {
    std::string table;
    try {
        table = store_.get(table_key(), rest_until(deadline));
    } catch (const boost::system::system_error& error) {
        if (!is_timeout(error)) throw;
        fail_missing(missing_ranks(), false);
    }
    if (!table.empty() && table.front() == kNoTable) {
        farewell().say_gone();
        const auto missing = decode_ranks(std::string_view(table).substr(1));
        if (!missing) fail(Errc::malformed, "what the store has under " + table_key() + " is no table");
        fail_missing(*missing, false);
    }
    if (auto membership = parse_table(table, world_size_)) return *membership;
    throw CollectiveError(CollectiveErrorCode::mismatch,
                          "join: rank 0 made a communicator of another size than the " +
                              std::to_string(world_size_) + " ranks of rank " + std::to_string(rank_),
                          {0, rank_}, "join");
}

std::vector<int> Join::missing_ranks() {
    std::vector<int> missing;
    for (int i = 0; i < world_size_; ++i) {
        if (!store_.check_keys({key("member", i)})) missing.push_back(i);
    }
    return missing;
}

void Join::fail_missing(const std::vector<int>& missing, bool publish) {
    if (publish) {
        store_.set(table_key(), kNoTable + encode_ranks(missing));
        std::vector<int> present;
        for (int i = 1; i < world_size_; ++i) {
            if (std::find(missing.begin(), missing.end(), i) == missing.end()) present.push_back(i);
        }
        farewell().wait_for(present, kFarewellPatience);
    }
    // Without a missing rank it was rank 0 that has not finished the table.
    const std::vector<int> culprits = missing.empty() ? std::vector<int>{0} : missing;
    throw CollectiveError(CollectiveErrorCode::timed_out,
                          "join: of " + std::to_string(world_size_) + " ranks these have not come in time " +
                              "(CommunicatorOptions::join_timeout): " + list_of_ranks(culprits),
                          culprits, "join");
}

Farewell Join::farewell() const {
    return {store_, prefix_ + std::to_string(instance_) + '/', rank_, world_size_};
}

std::string Join::own_key(std::string_view name) const {
    return prefix_ + std::string(name) + '/' + std::to_string(rank_);
}

std::string Join::key(std::string_view name, int rank) const {
    return prefix_ + std::to_string(instance_) + '/' + std::string(name) + '/' + std::to_string(rank);
}

std::string Join::table_key() const { return prefix_ + std::to_string(instance_) + "/table"; }

}  // namespace ddprun
