// SPDX-License-Identifier: BSD-3-Clause
// Reading and advancing torch's default generators.
#include <bindings/torch_rng.h>

#include <base/error.h>
#include <base/hash.h>
#include <bindings/py_allocator.h>

#include <algorithm>
#include <cstring>

namespace nvfuser::python {

namespace {

constexpr const char* kWhat = "Cannot use torch's random generator";
constexpr uint64_t kNumbersPerBlock = 4; // of Philox 4x32

PyRef importTorch() {
  return checked(PyImport_ImportModule("torch"), kWhat);
}

PyRef attribute(const PyRef& object, const char* name) {
  return checked(PyObject_GetAttrString(object.get(), name), kWhat);
}

uint64_t unsignedInteger(const PyRef& number) {
  const uint64_t value = PyLong_AsUnsignedLongLongMask(number.get());
  if (PyErr_Occurred() != nullptr) {
    throwPythonError(kWhat);
  }
  return value;
}

PhiloxState advanceCuda(int device, uint64_t numbers) {
  const PyRef torch = importTorch();
  const PyRef cuda = attribute(torch, "cuda");
  checked(PyObject_CallMethod(cuda.get(), "init", nullptr), kWhat); // makes the generators
  const PyRef generators = attribute(cuda, "default_generators");
  const PyRef generator = checked(PySequence_GetItem(generators.get(), device), kWhat);
  PhiloxState state;
  state.seed = unsignedInteger(
      checked(PyObject_CallMethod(generator.get(), "initial_seed", nullptr), kWhat));
  state.offset =
      unsignedInteger(checked(PyObject_CallMethod(generator.get(), "get_offset", nullptr), kWhat));
  const unsigned long long next = state.offset + numbers;
  checked(PyObject_CallMethod(generator.get(), "set_offset", "K", next), kWhat);
  return state;
}

// The start of what the CPU generator's get_state() returns (at::mt19937's serialized form;
// unchanged since torch 1.0): the 624 words of the twister are replaced by the next 624 when all
// have been drawn.
struct TwisterState {
  uint64_t seed;
  int32_t left;
  int32_t seeded;
  uint64_t next; // words drawn; 0 only if none was since seeding
  uint64_t words[624];
};

TwisterState readTwister(const PyRef& generator) {
  const PyRef tensor = checked(PyObject_CallMethod(generator.get(), "get_state", nullptr), kWhat);
  BorrowedArray bytes;
  NVF_CHECK(borrow(tensor.get(), bytes) && bytes.rank == 1 && bytes.dtype == DataType::UInt8 &&
                bytes.sizes[0] >= static_cast<int64_t>(sizeof(TwisterState)),
            kWhat, ": its state has an unknown form");
  TwisterState state;
  std::memcpy(&state, bytes.data, sizeof(state));
  NVF_CHECK(state.next <= std::size(state.words), kWhat, ": its state has an unknown form");
  return state;
}

uint64_t hashOfWords(const TwisterState& state) {
  return hashBytes(state.words, sizeof(state.words));
}

void draw(const PyRef& torch, uint64_t count, PyObject* generator) {
  const PyRef keywords = PyRef::steal(PyDict_New());
  if (generator != nullptr) {
    PyDict_SetItemString(keywords.get(), "generator", generator);
  }
  const PyRef function = attribute(torch, "rand");
  const PyRef arguments =
      PyRef::steal(Py_BuildValue("(K)", static_cast<unsigned long long>(count)));
  checked(PyObject_Call(function.get(), arguments.get(), keywords.get()), kWhat);
}

// Of the first 624 words after seeding.
uint64_t hashOfFirstWords(const PyRef& torch, uint64_t seed) {
  static uint64_t last_seed = 0;
  static uint64_t last_hash = 0;
  if (last_hash == 0 || last_seed != seed) {
    const PyRef generator = checked(PyObject_CallMethod(torch.get(), "Generator", nullptr), kWhat);
    checked(PyObject_CallMethod(generator.get(), "manual_seed", "K",
                                static_cast<unsigned long long>(seed)),
            kWhat);
    draw(torch, 1, generator.get());
    last_hash = hashOfWords(readTwister(generator));
    last_seed = seed;
  }
  return last_hash;
}

PhiloxState advanceHost(uint64_t numbers) {
  const PyRef torch = importTorch();
  const TwisterState twister = readTwister(attribute(torch, "default_generator"));
  PhiloxState state;
  state.seed = twister.seed;
  state.offset = kNumbersPerBlock * twister.next;
  if (twister.next > 0) {
    const uint64_t hash = hashOfWords(twister);
    if (hash != hashOfFirstWords(torch, twister.seed)) {
      // How often the words were replaced is not recorded; their hash stands for it.
      constexpr uint64_t kRoom = 4096; // more than 4 * 624
      state.offset += kRoom * (hash >> 14);
    }
  }
  draw(torch, std::max<uint64_t>(1, numbers / kNumbersPerBlock), nullptr);
  return state;
}

} // namespace

TorchRngState& TorchRngState::instance() {
  static auto* instance = new TorchRngState();
  return *instance;
}

PhiloxState TorchRngState::advance(Device device, uint64_t numbers) {
  const GilHolder gil;
  if (!torchAvailable()) {
    return DefaultRngState::instance().advance(device, numbers);
  }
  return device.isCuda() ? advanceCuda(device.index, numbers) : advanceHost(numbers);
}

} // namespace nvfuser::python
