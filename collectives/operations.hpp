// Operations: everything that ranks do together, in the forms in which programs ask for it. Public; standard
// library only.
//
// Self decides when a call returns and how a program learns of errors. Communicator returns nothing, when
// this rank's part is done, and throws. AttemptedOperations returns a Status then. AsyncOperations returns a
// Work at once. Buffers, counts, in-place use and errors: see communicator.hpp.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "collectives/operation_request.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

template <class Self, class Result>
class Operations {
  public:
    // Reduces: data[i] of every rank becomes the reduction over all ranks' data[i].
    //
    // All reductions take a ReduceOp, or premul_sum(scalar); an operation that has no meaning for the type is
    // an invalid_argument. `compression` halves what f32 sends between hosts; all ranks give the same.
    template <Element T, std::size_t N>
    Result all_reduce(std::span<T, N> data, const Reduction& op,
                      Compression compression = Compression::none) {
        return all_reduce(data.data(), data.data(), data.size(), data_type_of<T>(), op, compression);
    }

    // Reduces several buffers in place as one operation; their sizes are the same on all ranks. Small buffers
    // share one meeting of the ranks, large ones are reduced where they lie. Not on GPUs.
    template <Element T>
    Result all_reduce(const std::vector<std::span<T>>& data, const Reduction& op) {
        const std::vector<Part> parts = parts_of(data);
        OperationRequest request{Operation::all_reduce, nullptr, nullptr, 0, data_type_of<T>(), op};
        for (const Part& part : parts) request.count += part.count;
        request.out_parts = parts;
        return self().submit(request);
    }

    // Reduces from `in` to `out`, of equal sizes.
    template <Element T, std::size_t N>
    Result all_reduce(std::span<const std::type_identity_t<T>> in, std::span<T, N> out, const Reduction& op,
                      Compression compression = Compression::none) {
        return self().submit({Operation::all_reduce, in.data(), out.data(), out.size(), data_type_of<T>(), op,
                              -1, sizes(in, out), compression});
    }

    // Copies the root's `data` to every rank's.
    template <Element T, std::size_t N>
    Result broadcast(std::span<T, N> data, int root) {
        return broadcast(data.data(), data.size(), data_type_of<T>(), root);
    }

    // Gathers all ranks' `in`, in rank order, in every rank's `out`, which is world_size() times as long as
    // `in`. In place when `in` is this rank's part of `out`.
    template <Element T, std::size_t N>
    Result all_gather(std::span<const std::type_identity_t<T>> in, std::span<T, N> out) {
        return self().submit({Operation::all_gather, in.data(), out.data(), in.size(), data_type_of<T>(),
                              ReduceOp::sum, -1, sizes(in, out)});
    }

    // Reduces `in`, which is world_size() times as long as `out`, over all ranks; `out` becomes this rank's
    // part of the result. In place when `out` is this rank's part of `in`.
    template <Element T, std::size_t N>
    Result reduce_scatter(std::span<const std::type_identity_t<T>> in, std::span<T, N> out,
                          const Reduction& op) {
        return self().submit({Operation::reduce_scatter, in.data(), out.data(), out.size(), data_type_of<T>(),
                              op, -1, sizes(in, out)});
    }

    // Reduces all ranks' `in` to the root's `out`, of equal size; the other ranks' `out` is ignored. In place
    // when both are the same.
    template <Element T, std::size_t N>
    Result reduce(std::span<const std::type_identity_t<T>> in, std::span<T, N> out, const Reduction& op,
                  int root) {
        return self().submit({Operation::reduce, in.data(), out.data(), in.size(), data_type_of<T>(), op,
                              root, sizes(in, out)});
    }

    // Reduces in place on the root; the other ranks' `data` stays as it is.
    template <Element T, std::size_t N>
    Result reduce(std::span<T, N> data, const Reduction& op, int root) {
        return reduce(data.data(), data.data(), data.size(), data_type_of<T>(), op, root);
    }

    // Gathers all ranks' `in`, in rank order, in the root's `out`, which is world_size() times as long; the
    // other ranks' `out` is ignored. In place when the root's `in` is its part of `out`.
    template <Element T, std::size_t N>
    Result gather(std::span<const std::type_identity_t<T>> in, std::span<T, N> out, int root) {
        return self().submit({Operation::gather, in.data(), out.data(), in.size(), data_type_of<T>(),
                              ReduceOp::sum, root, sizes(in, out)});
    }

    // Scatters the root's `in`, which is world_size() times as long as `out`: its r-th part becomes `out` of
    // rank r. The other ranks' `in` is ignored. In place when the root's `out` is its part of `in`.
    template <Element T, std::size_t N>
    Result scatter(std::span<const std::type_identity_t<T>> in, std::span<T, N> out, int root) {
        return self().submit({Operation::scatter, in.data(), out.data(), out.size(), data_type_of<T>(),
                              ReduceOp::sum, root, sizes(in, out)});
    }

    // Exchanges the parts of two buffers of equal size, with a part for each rank: part s of rank r's `in`
    // becomes part r of rank s's `out`. In place when both are the same.
    template <Element T, std::size_t N>
    Result all_to_all(std::span<const std::type_identity_t<T>> in, std::span<T, N> out) {
        const std::size_t part = out.size() / static_cast<std::size_t>(self().world_size());
        return self().submit({Operation::all_to_all, in.data(), out.data(), part, data_type_of<T>(),
                              ReduceOp::sum, -1, sizes(in, out)});
    }

    // Gathers into parts that lie anywhere, in any order in memory, of any sizes, listed by rank; in place
    // where a part is the same memory on both sides. The four operations below take such lists, too.
    //
    // All ranks call this form. Before anything is sent, the ranks tell each other the sizes. Where a rank
    // has another number of elements for a second one than that one expects, all ranks get an
    // invalid_argument that names both. The communicator lives on. Not on GPUs.
    template <Element T>
    Result all_gather(std::span<const std::type_identity_t<T>> in, const std::vector<std::span<T>>& out) {
        return submit_parts<T>(Operation::all_gather, in, {}, {}, parts_of(out));
    }
    template <Element T>
    Result reduce_scatter(const std::vector<std::span<const std::type_identity_t<T>>>& in, std::span<T> out,
                          const Reduction& op) {
        return submit_parts<T>(Operation::reduce_scatter, {}, parts_of(in), out, {}, -1, op);
    }
    // Gathers parts on the root; `out` of the other ranks is ignored. scatter() ignores `in` of the other
    // ranks.
    template <Element T>
    Result gather(std::span<const std::type_identity_t<T>> in, const std::vector<std::span<T>>& out,
                  int root) {
        return submit_parts<T>(Operation::gather, in, {}, {}, parts_of(out), root);
    }
    template <Element T>
    Result scatter(const std::vector<std::span<const std::type_identity_t<T>>>& in, std::span<T> out,
                   int root) {
        return submit_parts<T>(Operation::scatter, {}, parts_of(in), out, {}, root);
    }
    template <Element T>
    Result all_to_all(const std::vector<std::span<const std::type_identity_t<T>>>& in,
                      const std::vector<std::span<T>>& out) {
        return submit_parts<T>(Operation::all_to_all, {}, parts_of(in), {}, parts_of(out));
    }

    // Returns when all ranks have called it.
    Result barrier() { return self().submit({.operation = Operation::barrier}); }

    // Sends to one other rank, which must call recv with the same type and size. Returns when `data` may be
    // changed again, which can be before or after the peer's recv. Two ranks that both send first may wait
    // for each other; in a Group (group.hpp) they do not.
    template <class T, std::size_t N>
    requires Element<std::remove_const_t<T>> Result send(std::span<T, N> data, int peer) {
        return send(data.data(), data.size(), data_type_of<std::remove_const_t<T>>(), peer);
    }

    template <Element T, std::size_t N>
    Result recv(std::span<T, N> data, int peer) {
        return recv(data.data(), data.size(), data_type_of<T>(), peer);
    }

    // Reduces untyped buffers. All typed calls use the untyped ones from here on. `count` is as in
    // OperationRequest. Pointers are aligned for the type, and may be null only when count is 0 or the buffer
    // is ignored.
    Result all_reduce(const void* in, void* out, std::size_t count, DataType type, const Reduction& op,
                      Compression compression = Compression::none) {
        return self().submit({Operation::all_reduce, in, out, count, type, op, -1, {}, compression});
    }
    Result broadcast(void* data, std::size_t count, DataType type, int root) {
        return self().submit({Operation::broadcast, data, data, count, type, ReduceOp::sum, root});
    }
    Result all_gather(const void* in, void* out, std::size_t count, DataType type) {
        return self().submit({Operation::all_gather, in, out, count, type});
    }
    Result reduce_scatter(const void* in, void* out, std::size_t count, DataType type, const Reduction& op) {
        return self().submit({Operation::reduce_scatter, in, out, count, type, op});
    }
    Result reduce(const void* in, void* out, std::size_t count, DataType type, const Reduction& op,
                  int root) {
        return self().submit({Operation::reduce, in, out, count, type, op, root});
    }
    Result gather(const void* in, void* out, std::size_t count, DataType type, int root) {
        return self().submit({Operation::gather, in, out, count, type, ReduceOp::sum, root});
    }
    Result scatter(const void* in, void* out, std::size_t count, DataType type, int root) {
        return self().submit({Operation::scatter, in, out, count, type, ReduceOp::sum, root});
    }
    Result all_to_all(const void* in, void* out, std::size_t count, DataType type) {
        return self().submit({Operation::all_to_all, in, out, count, type});
    }
    Result send(const void* data, std::size_t count, DataType type, int peer) {
        return self().submit({Operation::send, data, nullptr, count, type, ReduceOp::sum, peer});
    }
    Result recv(void* data, std::size_t count, DataType type, int peer) {
        return self().submit({Operation::recv, nullptr, data, count, type, ReduceOp::sum, peer});
    }

  protected:
    Operations() = default;
    ~Operations() = default;
    Operations(const Operations&) = default;
    Operations& operator=(const Operations&) = default;

  private:
    template <class In, class Out>
    static BufferSizes sizes(const In& in, const Out& out) noexcept {
        return {in.size(), out.size()};
    }
    template <class T>
    static std::vector<Part> parts_of(const std::vector<std::span<T>>& spans) {
        std::vector<Part> parts;
        for (const std::span<T>& span : spans)
            parts.push_back({const_cast<std::remove_const_t<T>*>(span.data()), span.size()});
        return parts;
    }
    // Submits an operation of which one buffer, or both, is given by parts.
    template <class T>
    Result submit_parts(Operation operation, std::span<const T> in, const std::vector<Part>& in_parts,
                        std::span<T> out, const std::vector<Part>& out_parts, int root = -1,
                        const Reduction& op = ReduceOp::sum) {
        OperationRequest request{operation,         in.data(), out.data(), in.size() + out.size(),
                                 data_type_of<T>(), op,        root};
        request.in_parts = in_parts;
        request.out_parts = out_parts;
        request.counted = true;
        return self().submit(request);
    }
    Self& self() { return static_cast<Self&>(*this); }
};

}  // namespace ddprun
#pragma GCC visibility pop
