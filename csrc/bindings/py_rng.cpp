// See py_rng.h.
#include <bindings/py_rng.h>

#include <bindings/py_allocator.h>

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace nvfuser::python {

PhiloxState PyRngState::advance(Device device, uint64_t numbers) {
  GilHolder gil;
  // Which (seed, generation) the host offset belongs to.
  static uint64_t host_seed = 0;
  static uint64_t host_offset = 0;
  static py::bytes* host_state = nullptr;
  if (!torchAvailable()) {
    return DefaultRngState::instance().advance(device, numbers);
  }
  py::module_ torch = py::module_::import("torch");
  if (device.type == DeviceType::Cuda) {
    py::object generator = torch.attr("cuda").attr("default_generators")[py::int_(device.index)];
    PhiloxState state;
    state.seed = generator.attr("initial_seed")().cast<uint64_t>();
    state.offset = generator.attr("get_offset")().cast<uint64_t>();
    generator.attr("set_offset")(state.offset + numbers);
    return state;
  }
  // torch's CPU generator has no philox offset. Ours restarts whenever the generator was seeded anew, which shows
  // in its whole state: drawing nothing from it leaves the state as it is.
  py::object generator = torch.attr("default_generator");
  const auto seed = generator.attr("initial_seed")().cast<uint64_t>();
  py::object raw = generator.attr("get_state")().attr("numpy")().attr("tobytes")();
  py::bytes now(raw);
  if (host_state == nullptr || seed != host_seed || !now.equal(*host_state)) {
    host_seed = seed;
    host_offset = 0;
    delete host_state;
    host_state = nullptr;
  }
  PhiloxState state{host_seed, host_offset};
  host_offset += numbers;
  // Mark the generator as used, so that torch.manual_seed with the same seed is seen as a restart.
  torch.attr("rand")(1, py::arg("generator") = generator);
  host_state = new py::bytes(
      py::object(generator.attr("get_state")().attr("numpy")().attr("tobytes")()));
  return state;
}

} // namespace nvfuser::python
