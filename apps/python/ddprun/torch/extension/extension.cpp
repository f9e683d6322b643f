// What Python sees of the backend: module `_ddprun_torch`, which ddprun.torch loads after the library.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "apps/python/ddprun/torch/extension/group.hpp"

namespace py = pybind11;

namespace ddprun {
inline namespace app {
namespace {

// In the way in which torch binds its own: Python and C++ share the object.
template <class T>
using Shared = c10::intrusive_ptr<T>;

// None where the parent has ended, or a member has left it.
Shared<Group> make(const Shared<c10d::Store>& store, int rank, int size, Milliseconds timeout,
                   const std::string& name, const std::vector<uint64_t>& global_ranks, bool later,
                   const Shared<c10d::Backend>& parent, const std::vector<int>& ranks) {
    auto options = c10::make_intrusive<Group::Options>(timeout);
    options->group_name = name;
    options->global_ranks_in_group = global_ranks;
    const auto* from = dynamic_cast<Group*>(parent.get());
    if (from != nullptr && !from->lives()) return {};
    try {
        return c10::make_intrusive<Group>(store, rank, size, std::move(options), from, ranks, later);
    } catch (const RankError& error) {
        if (from == nullptr || (error.code != DDPRUN_PEER_LEFT && error.code != DDPRUN_ABORTED)) throw;
        return {};
    }
}

// torch's own translator makes the type, and knows nothing of ranks.
void translate(std::exception_ptr thrown) {
    try {
        if (thrown) std::rethrow_exception(thrown);
    } catch (const RankError& error) {
        const py::object type = py::module_::import("torch.distributed").attr("DistBackendError");
        py::object made = type(error.what_without_backtrace());
        made.attr("ranks") = error.ranks;
        PyErr_SetObject(type.ptr(), made.ptr());
    }
}

}  // namespace
}  // namespace app
}  // namespace ddprun

// NOLINTNEXTLINE: pybind11's macro
PYBIND11_MODULE(_ddprun_torch, module) {
    using namespace ddprun;
    py::module_::import("torch.distributed");
    py::register_exception_translator(&translate);
    py::class_<Group, c10d::Backend, Shared<Group>> group(module, "Group");
    py::class_<Group::Options, c10d::Backend::Options, Shared<Group::Options>>(group, "Options")
        .def(py::init<Milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout);
    group.def_property_readonly("options", &Group::options)
        .def("_set_default_timeout", &Group::setTimeout, py::arg("timeout"),
             py::call_guard<py::gil_scoped_release>());
    group.def("owns", &Group::owns, py::arg("tensor"));
    group.def("_await_calls", &Group::end_calls, py::call_guard<py::gil_scoped_release>());
    module.def("make", &make, py::call_guard<py::gil_scoped_release>());
}
