// moving() and reducing() make requests of the library from tensors and torch's reductions. What is refused
// is said in the words that callers of PyTorch look for.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <vector>

#include "apps/python/ddprun/torch/extension/operation.hpp"
#include "collectives/ddprun_collectives.h"

namespace ddprun {
inline namespace app {

using Refusal = std::function<void(const std::string&)>;

inline Refusal refusal(const char* operation) {
    return [operation](const std::string& what) { TORCH_CHECK(false, "ddprun: ", operation, ": ", what); };
}

inline void check_on_cpu(const Refusal& refuse, const at::ArrayRef<at::Tensor> tensors) {
    for (const at::Tensor& tensor : tensors) {
        if (!tensor.device().is_cpu()) refuse(c10::str("unsupported device type ", tensor.device().type()));
    }
}

inline void check_same_length(const Refusal& refuse, size_t outputs, size_t inputs) {
    if (outputs != inputs) refuse("requires input/output tensor lists to have the same length");
}

// Checks that there is one list, with a tensor for each rank.
inline void check_list_of_all(const Refusal& refuse, const char* which, const std::vector<Tensors>& lists,
                              int size) {
    if (lists.size() != 1)
        refuse(c10::str("requires a single-element ", which, " list containing a list with ", size,
                        " tensors."));
    if (lists[0].size() != static_cast<size_t>(size))
        refuse(c10::str("Incorrect ", which, " list size ", lists[0].size(), ". ",
                        which == std::string("input") ? "Input" : "Output", " list size should be ", size,
                        ", same as size of the process group."));
}

// Makes a request of `count` elements each; data that is only moved goes as bytes.
inline ddprun_request moving(int operation, const at::Tensor& in, const at::Tensor& out, size_t count,
                             int peer = -1) {
    ddprun_request request = DDPRUN_REQUEST_INIT;
    request.operation = operation;
    request.type = DDPRUN_U8;
    request.peer = peer;
    request.in = in.defined() ? in.data_ptr() : nullptr;
    request.out = out.defined() ? out.data_ptr() : nullptr;
    request.count = count * (in.defined() ? in : out).element_size();
    return request;
}

// Returns the library's number for a type, and how many of that one element is.
inline std::pair<int, size_t> reduced_as(at::ScalarType type) {
    switch (type) {
        case at::kFloat: return {DDPRUN_F32, 1};
        case at::kDouble: return {DDPRUN_F64, 1};
        case at::kHalf: return {DDPRUN_F16, 1};
        case at::kBFloat16: return {DDPRUN_BF16, 1};
        case at::kInt: return {DDPRUN_I32, 1};
        case at::kLong: return {DDPRUN_I64, 1};
        case at::kChar: return {DDPRUN_I8, 1};
        case at::kByte:
        case at::kBool: return {DDPRUN_U8, 1};
        case at::kUInt32: return {DDPRUN_U32, 1};
        case at::kUInt64: return {DDPRUN_U64, 1};
        case at::kComplexHalf: return {DDPRUN_F16, 2};
        case at::kComplexFloat: return {DDPRUN_F32, 2};
        case at::kComplexDouble: return {DDPRUN_F64, 2};
        default: TORCH_CHECK(false, "ddprun: Invalid scalar type ", type, " for a reduction");
    }
}

inline int reduction_of(const c10d::ReduceOp& op, at::ScalarType type) {
    using Kind = c10d::ReduceOp::RedOpType;
    const Kind kind = op;
    if (type == at::kBool) {
        // A truth value stays one.
        if (kind == Kind::SUM || kind == Kind::MAX) return DDPRUN_BOR;
        if (kind == Kind::PRODUCT || kind == Kind::MIN) return DDPRUN_BAND;
    }
    if (at::isComplexType(type))
        TORCH_CHECK(c10d::isComplexViewAsRealAllowed(op),
                    "ddprun: this reduction has no meaning for complex tensors");
    switch (kind) {
        case Kind::SUM: return DDPRUN_SUM;
        case Kind::AVG: return DDPRUN_AVG;
        case Kind::PRODUCT: return DDPRUN_PROD;
        case Kind::MIN: return DDPRUN_MIN;
        case Kind::MAX: return DDPRUN_MAX;
        case Kind::BAND: return DDPRUN_BAND;
        case Kind::BOR: return DDPRUN_BOR;
        case Kind::BXOR: return DDPRUN_BXOR;
        case Kind::PREMUL_SUM: return DDPRUN_PREMUL_SUM;
        default: TORCH_CHECK(false, "ddprun: unsupported reduction operation");
    }
}

inline ddprun_request reducing(int operation, const at::Tensor& in, const at::Tensor& out, size_t count,
                               const c10d::ReduceOp& op, int peer = -1) {
    ddprun_request request = moving(operation, in, out, 0, peer);
    const auto [type, factor] = reduced_as(out.scalar_type());
    request.type = type;
    request.count = count * factor;
    request.op = reduction_of(op, out.scalar_type());
    if (request.op == DDPRUN_PREMUL_SUM) {
        const auto* factors = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
        TORCH_CHECK(factors != nullptr,
                    "ddprun: unsupported reduction operation: PREMUL_SUM without its factor");
        request.scalar =
            factors->tensor_factor.defined() ? factors->tensor_factor.item<double>() : factors->double_factor;
    }
    return request;
}

}  // namespace app
}  // namespace ddprun
