#include "collectives/call/checked_task.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "collectives/error.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// A buffer, or a part of one.
struct Memory {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool written = false;
    const Call* call = nullptr;  // of a group's member
};

Memory memory_at(const void* data, std::size_t bytes, bool written, const Call* call = nullptr) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    return {begin, begin + bytes, written, call};
}

// Two of which one is written and that overlap.
std::optional<std::pair<Memory, Memory>> overlap_among(std::vector<Memory> places) {
    std::erase_if(places, [](const Memory& place) { return place.begin == place.end; });
    std::sort(places.begin(), places.end(),
              [](const Memory& a, const Memory& b) { return a.begin < b.begin; });
    // Those that reach furthest so far, of all, and of what is written.
    const Memory* furthest = nullptr;
    const Memory* written = nullptr;
    for (const Memory& place : places) {
        const Memory* before = place.written ? furthest : written;
        if (before != nullptr && place.begin < before->end) return std::pair(*before, place);
        if (furthest == nullptr || furthest->end < place.end) furthest = &place;
        if (place.written && (written == nullptr || written->end < place.end)) written = &place;
    }
    return std::nullopt;
}

class Checker {
  public:
    Checker(const OperationRequest& request, int rank, int world_size)
        : request_(request), rank_(rank), world_size_(world_size), traits_(traits_of(request.operation)) {}

    void check() const {
        require_operation();
        require_timeout();
        if (request_.operation == Operation::barrier) return;
        require_type();
        if (traits_.reduces) require_reduction();
        require_compression();
        if (traits_.has_root) require_rank("root");
        if (traits_.point_to_point) require_peer();
        const bool in = counts(traits_.in);
        const bool out = counts(traits_.out);
        const bool one_buffer = request_.operation == Operation::broadcast;
        if (is_of_several()) return require_several();
        require_parts(in, out);
        if (in) require_buffer(one_buffer || !out ? "data" : "input", request_.in, request_.in_parts);
        if (out && !one_buffer) require_buffer(in ? "output" : "data", request_.out, request_.out_parts);
        if (in && out) require_sizes();
        if (!request_.in_parts.empty() || !request_.out_parts.empty()) return require_parts_apart(in, out);
        if (in && out) require_apart();
    }

    // Returns the parts by which the buffers are given; null: by none.
    std::shared_ptr<const Parts> parts() const {
        if (request_.in_parts.empty() && request_.out_parts.empty() && !request_.counted) return nullptr;
        if (is_of_several())
            return std::make_shared<const Parts>(
                Parts{{}, {request_.out_parts.begin(), request_.out_parts.end()}});
        return std::make_shared<const Parts>(
            Parts{side(counts(traits_.in), request_.in_parts, request_.in, traits_.whole_in),
                  side(counts(traits_.out), request_.out_parts, request_.out, traits_.whole_out),
                  request_.counted});
    }

  private:
    [[noreturn]] void refuse(const std::string& what) const { ddprun::refuse(request_.operation, what); }

    bool counts(Where where) const {
        return where == Where::everywhere || (where == Where::root && rank_ == request_.peer);
    }

    std::vector<Part> side(bool counts, std::span<const Part> parts, const void* data, bool whole) const {
        if (!request_.counted) return {parts.begin(), counts ? parts.end() : parts.begin()};
        std::vector<Part> all(static_cast<std::size_t>(world_size_));
        for (int rank = 0; counts && rank < world_size_; ++rank) {
            // What has no parts goes to the root only, or comes from it, if there is one.
            const bool is_peer = !traits_.has_root || rank == request_.peer;
            auto& part = all[static_cast<std::size_t>(rank)];
            part = whole ? parts[static_cast<std::size_t>(rank)]
                         : Part{const_cast<void*>(data), is_peer ? request_.count : 0};
        }
        return all;
    }

    bool is_of_several() const {
        return request_.operation == Operation::all_reduce && !request_.out_parts.empty();
    }

    void require_several() const {
        if (!request_.in_parts.empty() || request_.counted) refuse("only its output has parts");
        std::size_t count = 0;
        std::vector<Memory> places;
        for (const Part& part : request_.out_parts) {
            require_elements("a part of output", part.data, part.count);
            places.push_back(memory_at(part.data, part.count * element_, true));
            count += part.count;
        }
        if (count != request_.count)
            refuse(fmt::format("parts of {} elements for a count of {}", count, request_.count));
        if (overlap_among(std::move(places))) refuse("output parts overlap");
    }

    void require_parts(bool in, bool out) const {
        const auto require = [&](const char* name, bool counts, bool whole, std::span<const Part> parts) {
            if (!whole && !parts.empty()) refuse(fmt::format("its {} has no parts", name));
            if (!counts || !whole || (parts.empty() && !request_.counted)) return;
            if (parts.size() != static_cast<std::size_t>(world_size_))
                refuse(fmt::format("{} of {} parts for {} ranks", name, parts.size(), world_size_));
            for (const Part& part : parts) {
                if (!request_.counted && part.count != request_.count)
                    refuse(fmt::format("a part of {} has {} elements, not {}", name, part.count,
                                       request_.count));
            }
        };
        if (request_.counted && !traits_.whole_in && !traits_.whole_out) refuse("it has no parts");
        require("input", in, traits_.whole_in, request_.in_parts);
        require("output", out, traits_.whole_out, request_.out_parts);
    }

    void require_operation() const {
        if (!traits_.internal) return;
        refuse(fmt::format("not an operation: {}", static_cast<int>(request_.operation)));
    }

    void require_timeout() const {
        const auto timeout = request_.timeout;
        if (timeout.count() >= 0 && timeout <= kLongestTimeout) return;
        refuse(fmt::format("a timeout of {} ms is not between 0 and 10 years", timeout.count()));
    }

    void require_type() const {
        if (element_ != 0) return;
        refuse(fmt::format("unknown DataType {}", static_cast<int>(request_.type)));
    }

    void require_reduction() const {
        const ReduceOp op = request_.reduction.op;
        if (!is_known(op)) refuse(fmt::format("unknown ReduceOp {}", static_cast<int>(op)));
        if (is_defined(op, request_.type)) return;
        refuse(fmt::format("{} is not defined for {}", name_of(op), name_of(request_.type)));
    }

    void require_compression() const {
        const Compression compression = request_.compression;
        if (compression == Compression::none) return;
        if (!is_known(compression))
            refuse(fmt::format("unknown Compression {}", static_cast<int>(compression)));
        if (request_.operation != Operation::all_reduce) refuse("only all_reduce compresses");
        if (is_defined(compression, request_.type)) return;
        refuse(fmt::format("{} cannot travel as {}", name_of(request_.type), name_of(compression)));
    }

    void require_rank(const char* name) const {
        if (request_.peer >= 0 && request_.peer < world_size_) return;
        refuse(fmt::format("{} {} is not a rank of this communicator (0..{})", name, request_.peer,
                           world_size_ - 1));
    }

    void require_peer() const {
        require_rank("peer");
        if (request_.peer == rank_) refuse(fmt::format("peer {} is this rank itself", rank_));
    }

    void require_buffer(const char* name, const void* data, std::span<const Part> parts) const {
        for (const Part& part : parts) require_elements(name, part.data, part.count);
        if (parts.empty()) require_elements(name, data, request_.count);
    }

    void require_elements(const char* name, const void* data, std::size_t count) const {
        if (count == 0) return;
        if (data == nullptr) refuse(fmt::format("{} is null, but count is {}", name, count));
        std::size_t bytes = 0;  // of all ranks; no division, which takes longer than all else here
        if (__builtin_mul_overflow(count, element_ * static_cast<std::size_t>(world_size_), &bytes) ||
            bytes > std::numeric_limits<std::size_t>::max() / 16)
            refuse(fmt::format("a count of {} is larger than any memory", count));
        if ((reinterpret_cast<std::uintptr_t>(data) & (element_ - 1)) != 0)
            refuse(fmt::format("{} is not aligned for {}", name, name_of(request_.type)));
    }

    void require_sizes() const {
        if (!request_.sizes) return;
        const auto [in, out] = *request_.sizes;
        if (traits_.whole_in == traits_.whole_out && in != out)
            refuse(fmt::format("input of {} elements, but output of {}", in, out));
        if (traits_.whole_in || traits_.whole_out) require_whole(traits_.whole_in ? in : out);
    }

    void require_whole(std::size_t elements) const {
        const auto ranks = static_cast<std::size_t>(world_size_);
        if (elements / ranks == request_.count && elements % ranks == 0) return;
        refuse(fmt::format("{} elements are not {} ranks times {}", elements, world_size_, request_.count));
    }

    // Buffers of one size may be the same; of two sizes the small one may be this rank's part of the other.
    void require_apart() const {
        const std::size_t part = request_.count * element_;
        const std::size_t whole = part * static_cast<std::size_t>(world_size_);
        const std::size_t place = part * static_cast<std::size_t>(rank_);
        const auto in = reinterpret_cast<std::uintptr_t>(request_.in);
        const auto out = reinterpret_cast<std::uintptr_t>(request_.out);
        const auto own_in = traits_.whole_in && !traits_.whole_out ? in + place : in;
        const auto own_out = traits_.whole_out && !traits_.whole_in ? out + place : out;
        if (part == 0 || own_in == own_out) return;
        if (in + (traits_.whole_in ? whole : part) <= out) return;
        if (out + (traits_.whole_out ? whole : part) <= in) return;
        refuse("input and output overlap, and not as in-place use does");
    }

    // Of two parts for one rank, or from it, that are the same memory, the operation is in place.
    void require_parts_apart(bool in, bool out) const {
        const std::size_t element = size_of(request_.type);
        const auto part = [&](std::span<const Part> parts, const void* data, bool whole, int rank) {
            if (!parts.empty()) return parts[static_cast<std::size_t>(rank)];
            if (!whole) return rank == rank_ ? Part{const_cast<void*>(data), request_.count} : Part{};
            auto* bytes = static_cast<std::byte*>(const_cast<void*>(data));
            return Part{bytes + static_cast<std::size_t>(rank) * request_.count * element, request_.count};
        };
        std::vector<Memory> places;
        for (int rank = 0; rank < world_size_; ++rank) {
            Part from, to;
            if (in) from = part(request_.in_parts, request_.in, traits_.whole_in, rank);
            if (out) to = part(request_.out_parts, request_.out, traits_.whole_out, rank);
            places.push_back(memory_at(to.data, to.count * element, true));
            if (from.data != to.data || from.count != to.count)
                places.push_back(memory_at(from.data, from.count * element, false));
        }
        if (overlap_among(std::move(places)))
            refuse("input and output parts overlap, and not as in-place use does");
    }

    const OperationRequest& request_;
    int rank_;
    int world_size_;
    const OperationTraits& traits_;
    const std::size_t element_ = size_of(request_.type);  // 0: unknown
};

void require_apart(const std::vector<Task>& members) {
    std::vector<Memory> places;
    places.reserve(members.size());
    for (const Task& member : members) {
        const bool receives = member.call.operation == Operation::recv;
        places.push_back(
            memory_at(receives ? member.out : member.in, bytes_of(member), receives, &member.call));
    }
    const auto overlap = overlap_among(std::move(places));
    if (!overlap) return;
    refuse(Operation::group, fmt::format("the memory of {} and of {} overlap", describe(*overlap->first.call),
                                         describe(*overlap->second.call)));
}

}  // namespace

void refuse(Operation operation, const std::string& what) { refuse(name_of(operation).data(), what); }

void refuse(const char* name, const std::string& what) {
    throw CollectiveError(CollectiveErrorCode::invalid_argument, fmt::format("{}: {}", name, what), {}, name);
}

Task checked_task(const OperationRequest& request, int rank, int world_size) {
    const Checker checker(request, rank, world_size);
    checker.check();
    const OperationTraits& traits = traits_of(request.operation);
    const bool named = traits.has_root || traits.point_to_point;
    const ReduceOp reduce = traits.reduces ? request.reduction.op : ReduceOp::sum;
    const Call call{request.operation, request.type,       reduce, named ? request.peer : -1, request.count,
                    /*sequence=*/0,    request.compression};
    return {call,    request.in, request.out,     request.reduction.scalar,
            nullptr, nullptr,    request.timeout, checker.parts()};
}

std::vector<std::uint64_t> counts_of(const Parts& parts) {
    std::vector<std::uint64_t> counts;
    for (const auto* side : {&parts.in, &parts.out}) {
        for (const Part& part : *side) counts.push_back(part.count);
    }
    return counts;
}

std::uint64_t agreed_count(const Call& call, std::span<const std::uint64_t> all, int world_size) {
    const auto n = static_cast<std::size_t>(world_size);
    const std::uint64_t limit = std::numeric_limits<std::size_t>::max() / 16 / (n * size_of(call.type));
    std::uint64_t largest = 0;
    for (std::size_t from = 0; from < n; ++from) {
        for (std::size_t to = 0; to < n; ++to) {
            const std::uint64_t has = all[from * 2 * n + to];
            const std::uint64_t expected = all[to * 2 * n + n + from];
            largest = std::max(largest, has);
            // A rank refuses more of its own program, see require_elements().
            if (has > limit)
                throw CollectiveError(
                    CollectiveErrorCode::invalid_argument,
                    fmt::format("{}: rank {} says that it has {} {} for rank {}; nothing was sent",
                                name_of(call.operation), from, has, name_of(call.type), to),
                    {static_cast<int>(from)}, std::string(name_of(call.operation)));
            if (has == expected) continue;
            std::vector<int> culprits{static_cast<int>(std::min(from, to))};
            if (from != to) culprits.push_back(static_cast<int>(std::max(from, to)));
            throw CollectiveError(
                CollectiveErrorCode::invalid_argument,
                fmt::format("{}: rank {} has {} {} for rank {}, which expects {}; nothing was sent",
                            name_of(call.operation), from, has, name_of(call.type), to, expected),
                std::move(culprits), std::string(name_of(call.operation)));
        }
    }
    return largest;
}

void reduce_parts(const Task& task, std::byte* room, const std::function<void(const Task&)>& reduce) {
    const std::size_t element = size_of(task.call.type);
    const auto reduce_one = [&](void* data, std::size_t count) {
        Task one = task;
        one.parts = nullptr;
        one.in = one.out = data;
        one.call.count = count;
        reduce(one);
    };
    const std::vector<Part>& parts = task.parts->out;
    for (auto first = parts.begin(); first != parts.end();) {
        auto last = first;
        std::size_t bytes = 0;
        for (; last != parts.end() && bytes + last->count * element <= kMostJoined; ++last)
            bytes += last->count * element;
        if (last - first <= 1 || room == nullptr) {
            reduce_one(first->data, first->count);
            ++first;
            continue;
        }
        std::byte* next = room;
        for (auto part = first; part != last; next += part++->count * element)
            copy_bytes(next, part->data, part->count * element);
        reduce_one(room, bytes / element);
        for (next = room; first != last; next += first++->count * element)
            copy_bytes(first->data, next, first->count * element);
    }
}

Task checked_group(std::shared_ptr<const std::vector<Task>> members) {
    Task group;
    group.call.operation = Operation::group;
    if (!members || members->empty()) return group;
    require_apart(*members);
    group.call.count = members->size();
    group.members = std::move(members);
    return group;
}

}  // namespace detail
}  // namespace ddprun
