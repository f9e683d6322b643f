// Call: what one rank asked for, as far as the other ranks must agree with it. Pure.
//
// Every message between ranks starts with the sender's Call. A rank that receives another call than its own
// thus knows at once that the program is wrong, instead of waiting for ever or reducing garbage.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/error.hpp"
#include "collectives/operation_request.hpp"
#include "rendezvous/worker/accusation.hpp"

namespace ddprun {
inline namespace detail {

// kTraits says what each operation is. Pure.

// Where says on which ranks a buffer is read or written.
enum class Where { nowhere, root, everywhere };

struct OperationTraits {
    std::string_view name;
    Where in = Where::everywhere;
    Where out = Where::everywhere;
    // whole_in, whole_out: the whole buffer has a part for each rank.
    bool whole_in = false;
    bool whole_out = false;
    bool has_root = false;
    bool reduces = false;         // the ReduceOp is part of the call
    bool point_to_point = false;  // concerns only the ranks that exchange messages
    bool to_root = false;         // the elements go to the root, or to the peer
    bool internal = false;        // no operation of Communicator
};

// kTraits: the traits of an operation, at the place of its number. The last entry stands for every number
// that is no operation.
inline constexpr std::array<OperationTraits, 18> kTraits{{
    {.name = "nothing", .internal = true},
    {.name = "all_reduce", .reduces = true},
    {.name = "broadcast", .has_root = true},
    {.name = "all_gather", .whole_out = true},
    {.name = "reduce_scatter", .whole_in = true, .reduces = true},
    {.name = "barrier", .in = Where::nowhere, .out = Where::nowhere},
    {.name = "send", .out = Where::nowhere, .point_to_point = true, .to_root = true},
    {.name = "recv", .in = Where::nowhere, .point_to_point = true},
    {.name = "join", .internal = true},
    {.name = "reduce", .out = Where::root, .has_root = true, .reduces = true, .to_root = true},
    {.name = "gather", .out = Where::root, .whole_out = true, .has_root = true, .to_root = true},
    {.name = "scatter", .in = Where::root, .whole_in = true, .has_root = true},
    {.name = "all_to_all", .whole_in = true, .whole_out = true},
    {.name = "split", .internal = true},
    {.name = "unknown", .internal = true},
    {.name = "group", .point_to_point = true, .internal = true},
    {.name = "parts", .internal = true},
    {.name = "unknown", .internal = true},
}};
static_assert(kTraits[static_cast<std::size_t>(Operation::parts)].name == "parts",
              "the order is the operations'");

constexpr const OperationTraits& traits_of(Operation operation) noexcept {
    return kTraits[std::min(static_cast<std::size_t>(operation), kTraits.size() - 1)];
}

constexpr std::string_view name_of(Operation operation) noexcept { return traits_of(operation).name; }
constexpr bool is_known(Operation operation) noexcept { return name_of(operation) != "unknown"; }
constexpr bool is_point_to_point(Operation operation) noexcept { return traits_of(operation).point_to_point; }
constexpr bool is_reduction(Operation operation) noexcept { return traits_of(operation).reduces; }
constexpr bool has_root(Operation operation) noexcept { return traits_of(operation).has_root; }

struct Call {
    Operation operation = Operation::none;
    DataType type = DataType::f32;
    ReduceOp reduce = ReduceOp::sum;
    std::int32_t root = -1;   // where has_root; of send and recv the peer; of parts their operation
    std::uint64_t count = 0;  // elements, as the caller gave them; of a group the number of its members
    // sequence: collectives count from 1; send, recv and groups carry the number of the collective before
    // them.
    std::uint64_t sequence = 0;
    Compression compression = Compression::none;

    bool operator==(const Call&) const = default;
};

// Returns the name of the operation that the caller asked for.
constexpr std::string_view name_of(const Call& call) noexcept {
    return name_of(call.operation == Operation::parts ? static_cast<Operation>(call.root) : call.operation);
}

// Returns `all_reduce(sum, 1000 f32) as call 7`, `all_reduce(avg, 9 f32 sent as bf16) as call 8`, `gather(5
// u8 to rank 2) as call 1`, `send(10 f32)`, `group of 3`, `all_to_all(by parts) as call 3`.
std::string describe(const Call& call);

// Verdict: why a communicator ended. A rank has one for each communicator, the first that arrives; all ranks
// are told.
struct Verdict {
    CollectiveErrorCode code = CollectiveErrorCode::system;
    std::vector<int> culprits;
    std::string text;  // a sentence without final stop

    bool operator==(const Verdict&) const = default;
};

// Returns the exception that a call throws because of the verdict.
inline CollectiveError error_of(const Verdict& verdict, const Call& call) {
    return CollectiveError(verdict.code, describe(call) + ": " + verdict.text, verdict.culprits,
                           std::string(name_of(call)), call.sequence);
}

// Returns the exception of a function that is no operation; its text begins with `prefix`.
inline CollectiveError error_of(const Verdict& verdict, const std::string& prefix) {
    return CollectiveError(verdict.code, prefix + ": " + verdict.text, verdict.culprits, prefix);
}

// kConnectionsClosed, kProcessEnded: how the death of a rank shows.
inline constexpr std::string_view kConnectionsClosed = "its connections closed without a goodbye";
inline constexpr std::string_view kProcessEnded = "its process ended without a goodbye";

inline Verdict death_verdict(int rank, std::string_view how) {
    return {CollectiveErrorCode::peer_died, {rank}, accuse(rank, Charge::died) + ": " + std::string(how)};
}

// Returns what abort(reason) on `rank` means for all ranks.
inline Verdict abort_verdict(int rank, const std::string& reason) {
    return {CollectiveErrorCode::aborted,
            {rank},
            accuse(rank, Charge::aborted) + ": " + (reason.empty() ? "no reason given" : reason)};
}

// list_of_ranks(), encode_ranks(): ranks as text. Pure.

// kMaxRanksInText: further ranks are counted, not named.
inline constexpr std::size_t kMaxRanksInText = 16;

// Returns the list as people read it: `3, 5, 8`; `0, 1, … and 4 more`.
std::string list_of_ranks(const std::vector<int>& ranks);

// Returns the list as programs read it: `3,5,8`; nothing for no ranks.
std::string encode_ranks(const std::vector<int>& ranks);
// Returns the ranks of such a list; nothing for any other text.
std::optional<std::vector<int>> decode_ranks(std::string_view text);

}  // namespace detail
}  // namespace ddprun
